// Package peer tests the reader of package resp against another one. It is a module of its own, so that
// no other module needs that reader.
//
//	go test -fuzz FuzzReader -fuzztime 30000x .
package peer
