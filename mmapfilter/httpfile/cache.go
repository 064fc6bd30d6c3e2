package httpfile

import (
	"container/list"
	"sync"
)

// pageBytes is the size of a page of the cache. A server takes about as long to send a page as to send
// a line.
const pageBytes = 4096

// A cache has the pages that were used last.
type cache struct {
	most int // pages

	mu    sync.Mutex
	pages map[int64]*list.Element // by number
	order list.List               // of *page, the last used in front
}

type page struct {
	number int64
	data   []byte
}

// get returns a page, or nil.
func (c *cache) get(number int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pages[number]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*page).data
}

// put adds a page. If there are too many, it drops the page that was used longest ago.
func (c *cache) put(number int64, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages[number] != nil {
		return // another goroutine has read it, too
	}
	if c.pages == nil {
		c.pages = make(map[int64]*list.Element)
	}
	c.pages[number] = c.order.PushFront(&page{number, data})
	if c.order.Len() > c.most {
		last := c.order.Back()
		delete(c.pages, last.Value.(*page).number)
		c.order.Remove(last)
	}
}
