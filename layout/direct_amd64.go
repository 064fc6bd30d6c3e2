package layout

//go:generate go run -C _asm . -out ../direct_amd64.s -stubs ../direct_stubs_amd64.go -pkg layout
