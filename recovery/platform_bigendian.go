//go:build ppc64 || mips || mips64 || s390x

package recovery

// Lookups load the words of a file as they are, and a file is little-endian.
// So this file does not compile on a big-endian machine.
var _ int = mmapfilter_needs_a_little_endian_machine
