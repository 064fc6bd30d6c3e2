package main

import (
	"runtime/metrics"
	"time"
)

// watch samples something every 20 ms until most is called, which returns the maximum.
func watch(sample func() int64) (most func() int64) {
	stop, result := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for most := int64(0); ; {
			most = max(most, sample())
			select {
			case <-stop:
				result <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-result
	}
}

// goMemory returns the bytes that the Go runtime has from the system.
func goMemory() int64 {
	return memoryClasses("/memory/classes/total:bytes") - memoryClasses("/memory/classes/heap/released:bytes")
}

func memoryClasses(name string) int64 {
	samples := []metrics.Sample{{Name: name}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64())
}
