package main

import (
	"fmt"
	"log"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/filterprom"
	"github.com/prometheus/client_golang/prometheus"
)

func main() {
	f, err := mmapfilter.OpenOrCreate("seen.mmf", &mmapfilter.Options{Capacity: 1000}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	prometheus.MustRegister(filterprom.NewFilterCollector(f, "seen"))
	if _, err := f.InsertUnique([]byte("apple")); err != nil {
		log.Fatal(err)
	}
	families, err := prometheus.DefaultGatherer.Gather() // as promhttp.Handler does
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "mmapfilter_filter_keys" {
			fmt.Println(family.GetName(), family.Metric[0].Gauge.GetValue())
		}
	}
}
