//go:build !amd64

package layout

func directHash(d *Direct, h uint64) bool  { return HashInGo(d, h) }
func directKey(d *Direct, key []byte) bool { return KeyInGo(d, key) }
func lookAddresses() (hash, key uintptr)   { return 0, 0 }
