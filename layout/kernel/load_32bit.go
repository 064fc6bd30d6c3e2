//go:build 386 || arm || mips || mipsle

package kernel

// Load loads a word. These machines read copies of files, to which nobody stores. An atomic load of a
// word in a local variable, such as the image of a line, would panic, since the stack is aligned to 4
// bytes.
func Load(p *uint64) uint64 { return *p }
