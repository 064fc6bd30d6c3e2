package replica

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// Options say how to follow. A nil *Options and the zero value mean the defaults.
type Options struct {
	Client     *http.Client            // nil means one like http.DefaultClient; its transport has TLS and proxies
	Header     http.Header             // sent with each request, such as Authorization
	Wait       time.Duration           // how long the server holds a request if there are no changes, at most a minute; 0 means 10 seconds
	Interval   time.Duration           // the least time from one request for changes to the next; 0 means 1 second
	Backoff    time.Duration           // pause after a failure, doubled after each further one; 0 means 100 ms
	MaxBackoff time.Duration           // longest such pause; 0 means 30 seconds
	MaxBytes   int64                   // the most bytes that a snapshot may have; 0 means 64 GiB
	Open       *mmapfilter.OpenOptions // how the file is opened for writing
	OnError    func(error)             // is called with each failure of an exchange, from one goroutine at a time; it must not call Close
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Client == nil {
		d.Client = new(http.Client)
	}
	if d.Wait == 0 {
		d.Wait = 10 * time.Second
	}
	d.Wait = min(d.Wait, maxWait)
	if d.Interval == 0 {
		d.Interval = time.Second
	}
	if d.Backoff == 0 {
		d.Backoff = 100 * time.Millisecond
	}
	if d.MaxBackoff == 0 {
		d.MaxBackoff = 30 * time.Second
	}
	if d.MaxBytes == 0 {
		d.MaxBytes = 64 << 30
	}
	return d
}

// pause returns how long to wait after a number of failures in a row: a random time, so that a hundred
// replicas do not come back to a server in the same instant.
func (o *Options) pause(failures int) time.Duration {
	longest := o.MaxBackoff
	if d := o.Backoff << min(failures-1, 30); failures <= 30 && d > 0 {
		longest = min(longest, d)
	}
	return longest/2 + rand.N(longest/2+1)
}
