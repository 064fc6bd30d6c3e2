#include "textflag.h"

// func Prefetch(p *uint64)
TEXT ·Prefetch(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchBlocks(region *uint64, blocks *uint64, n int)
TEXT ·prefetchBlocks(SB), NOSPLIT, $0-24
	MOVQ region+0(FP), AX
	MOVQ blocks+8(FP), BX
	MOVQ n+16(FP), CX
	LEAQ (BX)(CX*8), CX
next:
	MOVQ (BX), DX
	SHLQ $6, DX
	PREFETCHT0 (AX)(DX*1)
	ADDQ $8, BX
	CMPQ BX, CX
	JNE next
	RET
