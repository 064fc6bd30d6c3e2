package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A poller serves many clients from one goroutine, which waits for all of them at once and gives each
// one that has sent something a turn. So a small command takes one read and one write, and wakes no
// other goroutine. A client that would hold up the others is detached: it keeps the goroutine for
// itself until its turn ends, and a new goroutine polls. A client detaches itself before it waits for
// its peer, before a command that is long, and before it opens a filter; watch detaches a client whose
// turn takes long for any other reason.
type poller struct {
	epoll int
	wake  int           // an event descriptor, which ends the poller
	ended chan struct{} // closed when polling has ended

	mu      sync.Mutex
	clients map[int32]*client // by descriptor
	serving *client           // whose turn it is, unless it is detached
	turns   int64             // begun so far
	seen    int64             // turns when watch last ran
	watched bool              // watch will run
	timer   *time.Timer       // of watch
}

// patience is longer than the lookups of a full read take. A turn holds up others for twice patience at
// most, if a processor is free to serve them.
const patience = 2 * time.Millisecond

// A link is the connection of a client.
type link struct {
	*poller
	fd       int
	detached bool          // REQUIRES: poller.mu
	ready    chan struct{} // closed when a detached client no longer has to wait; nil if it does not wait. REQUIRES: poller.mu
	noReads  atomic.Bool
}

// Links are the pollers. Each new client gets the next one in turn. At most half of the processors
// poll, so that there are others for detached clients and for filters that grow.
type links []*poller

const maxPollers = 4 // of two descriptors each

func newLinks() (all links, err error) {
	for range min(max(runtime.GOMAXPROCS(0)/2, 1), maxPollers) {
		p, err := newPoller()
		if err != nil {
			all.end()
			return nil, err
		}
		all = append(all, p)
		go p.run()
	}
	return all, nil
}

// end ends the pollers. By then they have no clients.
func (all links) end() {
	for _, p := range all {
		unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-p.ended
		p.timer.Stop()
		unix.Close(p.wake)
		unix.Close(p.epoll)
	}
}

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	p := &poller{epoll: epoll, wake: wake, ended: make(chan struct{}), clients: map[int32]*client{}}
	if err := p.control(unix.EPOLL_CTL_ADD, wake, unix.EPOLLIN); err != nil {
		unix.Close(wake)
		unix.Close(epoll)
		return nil, err
	}
	p.timer = time.AfterFunc(time.Hour, p.watch)
	return p, nil
}

// add takes a connection over from the runtime, which would poll it, too.
func (all links) add(c *client, conn net.Conn) error {
	defer conn.Close()
	known, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T has no descriptor", conn)
	}
	raw, err := known.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	if closed := raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); closed != nil || err != nil {
		return errors.Join(closed, err)
	}
	p := all[c.id%int64(len(all))]
	c.poller, c.fd = p, fd
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[int32(fd)] = c
	if err := p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
		delete(p.clients, int32(fd))
		return errors.Join(err, unix.Close(fd))
	}
	return nil
}

// control changes what the poller waits for.
func (p *poller) control(op, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// run polls until it has served a client that was detached. It drops its other events, because they
// come again to the goroutine that polls by then.
func (p *poller) run() {
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(p.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			panic(err) // the descriptor is wrong
		}
		for _, e := range events[:max(n, 0)] {
			if e.Fd == int32(p.wake) {
				close(p.ended)
				return
			}
			c := p.begin(e.Fd)
			if c == nil {
				continue
			}
			if c.turn(); !p.end(c) {
				return
			}
		}
	}
}

// begin begins the turn of a client. It returns nil if the client is detached, or has left since the
// event came. (Another client may have its descriptor by now, and finds nothing to read then.)
func (p *poller) begin(fd int32) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[fd]
	if c == nil {
		return nil
	}
	if c.detached {
		if c.ready != nil {
			p.control(unix.EPOLL_CTL_DEL, c.fd, 0)
			close(c.ready)
			c.ready = nil
		}
		return nil
	}
	p.serving = c
	p.turns++
	if !p.watched {
		p.watched = true
		p.timer.Reset(patience)
	}
	return c
}

// end ends the turn of a client. Whoever polls may serve the client from then on. It reports false if
// the client had the goroutine for itself.
func (p *poller) end(c *client) (polls bool) {
	p.mu.Lock()
	polls = !c.detached
	if polls {
		p.serving = nil
	} else if !c.quits {
		c.detached = false
		c.quits = p.control(unix.EPOLL_CTL_ADD, c.fd, unix.EPOLLIN) != nil
	}
	quits := c.quits
	if quits {
		delete(p.clients, int32(c.fd))
	}
	p.mu.Unlock()
	if quits {
		c.s.leave(c)
	}
	return polls
}

// watch detaches the client whose turn it is, if the same turn was under way when watch last ran.
// It runs again while there are turns.
func (p *poller) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched = p.turns != p.seen || p.serving != nil; !p.watched {
		return
	}
	if c := p.serving; c != nil && p.turns == p.seen {
		if k := c.adds.Load(); k != nil {
			k.stuck.Store(true)
		}
		p.detachServing()
	}
	p.seen = p.turns
	p.timer.Reset(patience)
}

// detachServing gives the client whose turn it is the goroutine that serves it. REQUIRES: p.mu
func (p *poller) detachServing() {
	p.serving.detached = true
	p.control(unix.EPOLL_CTL_DEL, p.serving.fd, 0)
	p.serving = nil
	go p.run()
}

// detach gives the client the goroutine that serves it. It may be called again, but only by that
// goroutine.
func (l *link) detach() {
	l.poller.mu.Lock()
	defer l.poller.mu.Unlock()
	if !l.detached {
		l.poller.detachServing()
	}
}

// await waits until there is something to read, or room to write, or the connection has ended.
func (l *link) await(events uint32) error {
	l.detach()
	p, ready := l.poller, make(chan struct{})
	p.mu.Lock()
	l.ready = ready
	err := p.control(unix.EPOLL_CTL_ADD, l.fd, events)
	p.mu.Unlock()
	if err == nil {
		<-ready
	}
	return err
}

var errEnds = errors.New("the server ends")

// read reads the bytes that have come. If there are none, the error is errNothing.
func (l *link) read(b []byte) (int, error) {
	for {
		if l.noReads.Load() {
			return 0, errEnds
		}
		n, err := syscall.Read(l.fd, b)
		switch {
		case n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case err == unix.EAGAIN:
			return 0, errNothing
		case err != unix.EINTR:
			return 0, err
		}
	}
}

// readAlone detaches the client, and waits until there is something to read.
func (l *link) readAlone(b []byte) (int, error) {
	l.detach()
	for {
		n, err := l.read(b)
		if err != errNothing {
			return n, err
		}
		if err := l.await(unix.EPOLLIN); err != nil {
			return 0, err
		}
	}
}

// write writes all of b, and detaches the client before it waits.
func (l *link) write(b []byte) (written int, err error) {
	for written < len(b) && err == nil {
		var n int
		n, err = syscall.Write(l.fd, b[written:])
		written += max(n, 0)
		switch err {
		case unix.EINTR:
			err = nil
		case unix.EAGAIN:
			err = l.await(unix.EPOLLOUT)
		}
	}
	return written, err
}

// endReads ends a wait for something to read, and lets the client read nothing more.
func (l *link) endReads() {
	l.noReads.Store(true)
	unix.Shutdown(l.fd, unix.SHUT_RD)
}

// shut ends all waits of the client.
func (l *link) shut() { unix.Shutdown(l.fd, unix.SHUT_RDWR) }

func (l *link) close() { unix.Close(l.fd) }
