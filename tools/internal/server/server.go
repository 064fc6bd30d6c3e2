package server

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Config says how to serve.
type Config struct {
	Dir        string
	Rate       float64 // false-positive rate of a filter whose command names none
	Password   string  // "" asks for no password
	MaxClients int     // clients at a time; 0 means the number that half of the descriptors allow, at most 10,000
	Sync       bool    // a reply to a write means that the write is durable
	Version    string  // of the program

	// Logf, if not nil, is called with errors that no client gets.
	Logf func(format string, args ...any)
}

// A Server serves a directory.
type Server struct {
	Config
	dir     *directory
	started time.Time
	down    chan struct{}  // closed when a client asks for the end
	sweeps  sync.WaitGroup // tick and sweep
	stop    chan struct{}  // closed when Close begins
	once    sync.Once      // closes down
	total   atomic.Int64   // commands done
	ticks   atomic.Int64   // 1 plus the ticks so far
	links   links

	mu        sync.Mutex
	closed    bool
	ids       int64 // of the last connection
	listeners []net.Listener
	clients   map[*client]struct{}
	running   sync.WaitGroup // clients that have not left
}

// An open filter has up to 4 descriptors, and 4 more while it is rebuilt; few are rebuilt at a time.
const (
	descriptorsPerFilter = 5
	otherDescriptors     = 40
	maxOpen              = 4096
)

const writeTime = 30 * time.Second // the time in which a client must read what a write sends it

var closeTime = 3 * time.Second // the same, once the server ends

// New opens a directory.
func New(c Config) (*Server, error) {
	all := descriptors()
	if c.MaxClients == 0 {
		c.MaxClients = min(10_000, all/2)
	}
	most := min((all-c.MaxClients-otherDescriptors)/descriptorsPerFilter, maxOpen)
	if most < 8 {
		return nil, fmt.Errorf("%d clients need more than the %d descriptors that this process may have (ulimit -n)", c.MaxClients, all)
	}
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	dir, err := openDirectory(c.Dir, most, c.Logf)
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, dir: dir, started: time.Now(), down: make(chan struct{}), stop: make(chan struct{}), clients: map[*client]struct{}{}}
	if s.links, err = newLinks(); err != nil {
		return nil, errors.Join(err, dir.end())
	}
	s.ticks.Store(1)
	s.sweeps.Add(2)
	go s.every(s.tick)
	go s.every(func() { s.dir.sweep(time.Now().Add(-idleTime)) })
	return s, nil
}

// every does something at each tick until Close.
func (s *Server) every(do func()) {
	defer s.sweeps.Done()
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			do()
		}
	}
}

// tick makes names durable and looks after slow clients. Neither may wait for a sweep of the keys, which
// waits for commands.
func (s *Server) tick() {
	s.hurry(s.ticks.Add(1) - int64(writeTime/sweepInterval))
	if err := s.dir.syncNames(); err != nil {
		s.Logf("sync %s: %v", s.Dir, err)
	}
}

// hurry ends the connections of clients that have not read what was written before a
// tick.
func (s *Server) hurry(tick int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		if began := c.writing.Load(); began != 0 && began < tick {
			c.shut()
		}
	}
}

// Down is closed when a client asks for the end of the server. The caller then calls Close.
func (s *Server) Down() <-chan struct{} { return s.down }

// Serve serves the connections of l until Close. It returns nil then.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return l.Close()
	}
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			s.welcome(conn)
		case errors.Is(err, net.ErrClosed):
			return nil
		default: // Accept failed, most likely because no descriptor is free
			s.Logf("accept: %v", err)
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// welcome starts a client, unless there are too many.
func (s *Server) welcome(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.clients) >= s.MaxClients {
		conn.SetWriteDeadline(time.Now().Add(time.Second)) // the system takes so few bytes at once
		conn.Write([]byte("-ERR max number of clients reached\r\n"))
		conn.Close()
		return
	}
	s.ids++
	c := &client{s: s, d: s.dir, id: s.ids, trusted: s.Password == ""}
	s.clients[c] = struct{}{}
	s.running.Add(1)
	if err := s.links.add(c, conn); err != nil {
		s.Logf("accept: %v", err)
		delete(s.clients, c)
		s.running.Done()
	}
}

// leave ends the connection of a client, which nobody uses any more.
func (s *Server) leave(c *client) {
	s.mu.Lock()
	delete(s.clients, c)
	s.mu.Unlock()
	c.close()
	s.running.Done()
}

// connected returns how many clients there are.
func (s *Server) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// Close lets running commands end, and closes connections and filters. It waits at most closeTime
// for clients to read their replies.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.stop)
	for _, l := range s.listeners {
		l.Close()
	}
	for c := range s.clients {
		c.endReads()
	}
	s.mu.Unlock()
	s.hurry(s.ticks.Load()) // do not wait for clients that have been slow so far
	late := time.AfterFunc(closeTime, s.shutAll)
	s.running.Wait()
	late.Stop()
	s.links.end()
	s.sweeps.Wait()
	return s.dir.end()
}

func (s *Server) shutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		c.shut()
	}
}

// Loopback reports whether no other machine reaches an address to listen on.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
