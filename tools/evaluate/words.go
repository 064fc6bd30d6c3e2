package main

import "fmt"

// mebibytes formats a size.
func mebibytes(bytes uint64) string { return fmt.Sprintf("%.4g MiB", float64(bytes)/(1<<20)) }

// dash formats a number, or 0 as a dash.
func dash(x float64, format string) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf(format, x)
}
