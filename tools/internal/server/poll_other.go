//go:build !linux

package server

import (
	"net"
	"time"
)

// Where there is no epoll, each client has a goroutine.
type links struct{}

func newLinks() (links, error) { return links{}, nil }

func (links) add(c *client, conn net.Conn) error {
	c.conn = conn
	go func() {
		for !c.quits {
			c.turn()
		}
		c.s.leave(c)
	}()
	return nil
}

func (links) end() {}

// A link is the connection of a client.
type link struct{ conn net.Conn }

func (l *link) read(b []byte) (int, error)      { return l.conn.Read(b) }
func (l *link) readAlone(b []byte) (int, error) { return l.conn.Read(b) }
func (l *link) write(b []byte) (int, error)     { return l.conn.Write(b) }
func (l *link) detach()                         {}
func (l *link) endReads()                       { l.conn.SetReadDeadline(time.Now()) }
func (l *link) shut()                           { l.conn.SetDeadline(time.Now()) }
func (l *link) close()                          { l.conn.Close() }
