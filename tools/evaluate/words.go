package main

import "fmt"

// mebibytes writes a size.
func mebibytes(bytes uint64) string { return fmt.Sprintf("%.4g MiB", float64(bytes)/(1<<20)) }

// dash writes a number, or a dash where there is none.
func dash(x float64, format string) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf(format, x)
}
