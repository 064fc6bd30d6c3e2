// Package guard keeps a filter of the keys in an embedded store, so that reads of absent keys never
// reach the store.
package guard
