#include "textflag.h"

// func Prefetch(p *uint64)
TEXT ·Prefetch(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func prefetchBlocks(region *uint64, blocks *uint64, n int)
TEXT ·prefetchBlocks(SB), NOSPLIT, $0-24
	MOVD region+0(FP), R0
	MOVD blocks+8(FP), R1
	MOVD n+16(FP), R2
	ADD R2<<3, R1, R2
next:
	MOVD.P 8(R1), R3
	ADD R3<<6, R0, R3
	PRFM (R3), PLDL1KEEP
	CMP R1, R2
	BNE next
	RET
