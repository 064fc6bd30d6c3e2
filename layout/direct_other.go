//go:build !amd64

package layout

func directHash(d *Direct, h uint64) bool  { return HashInGo(d, h) }
func directKey(d *Direct, key []byte) bool { return KeyInGo(d, key) }
func codeInGo() Code                       { return Code{} }
func shardsCode() Code                     { return Code{} }
