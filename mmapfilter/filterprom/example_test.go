package filterprom_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/filterprom"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A program remembers what it has seen, and Prometheus asks for the metrics of its filter.
func ExampleNewFilterCollector() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	seen, err := mmapfilter.Create(filepath.Join(dir, "seen.mmf"), &mmapfilter.Options{Capacity: 1000, AutoGrow: true})
	if err != nil {
		log.Fatal(err)
	}
	defer seen.Close()
	prometheus.MustRegister(filterprom.NewFilterCollector(seen, "seen"))
	server := httptest.NewServer(promhttp.Handler()) // in a program: http.Handle("/metrics", promhttp.Handler())
	defer server.Close()

	if err := seen.Insert([]byte("apple")); err != nil {
		log.Fatal(err)
	}
	response, err := http.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "mmapfilter_filter_keys") || strings.HasPrefix(line, "mmapfilter_filter_up") {
			fmt.Print(line)
		}
	}
	// Output:
	// mmapfilter_filter_keys{name="seen"} 1
	// mmapfilter_filter_up{name="seen"} 1
}
