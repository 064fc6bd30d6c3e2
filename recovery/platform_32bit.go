//go:build 386 || arm || mips || mipsle

package recovery

// On a 32-bit machine, an int cannot hold the length of a mapping of 2 GiB or more, so
// mappings would be cut short without an error. So this file does not compile there.
var _ int = mmapfilter_needs_a_64_bit_machine
