//go:build 386 || arm || mips || mipsle

package recovery

// A mapping longer than 2 GiB has no length on a 32-bit machine, and would be
// cut short without an error. So this does not compile there.
var _ int = mmapfilter_needs_a_64_bit_machine
