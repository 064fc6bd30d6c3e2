#include "textflag.h"

// Written by hand: avo, of which the assembly for amd64 comes, knows no other processor.

#define REGION    R0
#define HASHES    R1
#define FOUND     R2
#define OPEN      R3
#define GROUPS    R4
#define LINES     R5
#define VALUES    R6
#define ONES      R7
#define MIX       R8
#define EPOCH     R9  // its address
#define COUNTERS  R10
#define BEFORE    R11 // the epoch, before
#define AHEAD     R12 // hashes whose lines are asked for next
#define TO_ASK    R13 // groups of these that are left

// For both words of a lookup, or for two lookups.
#define HIGHS     V24 // the highest bit of each lane
#define LOWS      V25 // the others
#define THREE     V26
#define ONE       V27
#define SHIFT_M   V28 // -48: overflow numbers begin at bit 48 of m
#define SHIFT_W   V29 // -60: overflow bits at bit 60 of a word
#define EACH_BIT  V30 // byte i is 1<<i

// USHL Vd.2D, Vn.2D, Vm.2D: to the left, or to the right where a lane of Vm is negative.
#define USHL(m, n, d) WORD $(0x6EE04400 | m<<16 | n<<5 | d)

// ASK asks for the home lines of two hashes.
#define ASK \
	LDP.P  16(AHEAD), (R14, R15)  \
	UMULH  LINES, R14, R14        \
	UMULH  LINES, R15, R15        \
	ADD    R14<<6, REGION, R14    \
	ADD    R15<<6, REGION, R15    \
	PRFM   (R14), PLDL1KEEP       \
	PRFM   (R15), PLDL1KEEP

#define ASK_GROUP ASK; ASK; ASK; ASK

// SPLIT i takes a hash apart. In vector i is its fingerprint in all lanes, twice; in the
// vector i+8, for each of its two words, how far to shift it to have its overflow bit lowest.
// Their addresses, and that of the removal counter, go to 24 bytes of the frame.
#define SPLIT(i, fp, shift) \
	MOVD.P 8(HASHES), R14          \
	UMULH  LINES, R14, R15         \
	MUL    LINES, R14, R14         \
	LSR    $61, R14, R16           \ // the first bucket
	LSL    $3, R14, R14            \
	UMULH  VALUES, R14, R14        \
	ADD    $1, R14, R14            \ // the fingerprint
	MUL    ONES, R14, R17          \
	MUL    MIX, R14, R14           \ // m
	UBFX   $32, R14, $16, R19      \
	ADD    R19<<1, R19, R20        \
	ADD    R19<<2, R20, R19        \
	LSR    $16, R19, R19           \
	ADD    $1, R19, R19            \
	EOR    R16, R19, R19           \ // the second bucket
	UBFX   $0, R15, $8, R20        \
	ADD    R20<<3, COUNTERS, R20   \
	ADD    R15<<6, REGION, R15     \
	ADD    R16<<3, R15, R21        \
	ADD    R19<<3, R15, R22        \
	STP    (R21, R22), (8+24*i)(RSP)  \
	MOVD   R20, (24+24*i)(RSP)     \
	ORR    R19<<32, R16, R16       \
	FMOVD  R16, F20                \
	VUSHLL $1, V20.S2, V20.D2      \
	VSUB   V20.D2, SHIFT_M.D2, V20.D2  \
	VDUP   R14, V21.D2             \
	USHL(20, 21, 20)               \
	VAND   V20.B16, THREE.B16, V20.B16 \
	VSUB   V20.D2, SHIFT_W.D2, shift.D2 \
	VDUP   R17, fp.D2

// COUNTER loads the removal counters of lookups i and i+1.
#define COUNTER(i, to, toF) \
	MOVD  (24+24*i)(RSP), R14      \
	MOVD  (48+24*i)(RSP), R15      \
	FMOVD (R14), toF               \
	VLD1  (R15), to.D[1]

// MATCH i loads the two words of a lookup. In vector i all HIGHS are set in a word that does
// not have the fingerprint; of the vector i+8 the lowest bits are the overflow bits.
#define MATCH(i, fp) \
	LDP   (8+24*i)(RSP), (R14, R15) \
	FMOVD (R14), F20               \
	VLD1  (R15), V20.D[1]          \
	VEOR  fp.B16, V20.B16, V21.B16 \
	USHL((i+8), 20, (i+8))         \
	VAND  LOWS.B16, V21.B16, V22.B16 \
	VADD  LOWS.D2, V22.D2, V22.D2  \
	VORR  V21.B16, V22.B16, fp.B16

// JOIN makes of two lookups, in lanes, what the vectors of both say: in none all bits where
// neither word has the fingerprint, in both the lowest bit where both overflow bits are set.
#define JOIN(none, none2, both, both2) \
	VUZP1 none2.D2, none.D2, V20.D2  \
	VUZP2 none2.D2, none.D2, V21.D2  \
	VUZP1 both2.D2, both.D2, V22.D2  \
	VUZP2 both2.D2, both.D2, V23.D2  \
	VAND  V20.B16, V21.B16, V20.B16  \
	VAND  V22.B16, V23.B16, both.B16 \
	VAND  HIGHS.B16, V20.B16, V20.B16 \
	VCMEQ HIGHS.D2, V20.D2, none.D2  \
	VAND  ONE.B16, both.B16, both.B16

// OPENED adds to both whatever else leaves two lookups open, the epoch in V23 and their
// counters, before and now. Then both is all bits where a lookup is open, and has found
// nothing, and else 0.
#define OPENED(i, none, both, before) \
	COUNTER(i, V20, F20)             \
	VEOR  before.B16, V20.B16, V20.B16 \
	VAND  ONE.B16, before.B16, V21.B16 \
	VORR  V20.B16, V21.B16, V20.B16  \
	VORR  V23.B16, both.B16, both.B16 \
	VORR  V20.B16, both.B16, both.B16 \
	VCMTST both.D2, both.D2, both.D2 \
	VAND  none.B16, both.B16, both.B16

// func batchNEON(b *batch)
//
// A group is 8 lookups. All their counters are loaded, then all their words, and then the
// counters again, with a barrier between (DMB ISHLD: what was loaded before it was loaded
// before what is loaded after it), as FirstLook does it with loads that are barriers each
// (LDAR): two waits in place of 48. The two words of a lookup are the lanes of one register.
//
// By the listing these are 58 instructions a lookup, where the code in Go has about 170. What
// that buys has not been measured: it was made and is tested under an emulator.
TEXT ·batchNEON(SB), NOSPLIT, $200-8
	MOVD b+0(FP), R14
	LDP  0(R14), (REGION, EPOCH)
	LDP  16(R14), (HASHES, FOUND)
	LDP  32(R14), (OPEN, GROUPS)
	LDP  48(R14), (LINES, VALUES)
	LDP  64(R14), (ONES, R15)
	MOVD 80(R14), R16
	ADD  $2048, EPOCH, COUNTERS // runtimeCounters words
	MOVD $0x9E3779B97F4A7C15, MIX // mixFirst
	VDUP R15, HIGHS.D2
	BIC  R15, R16, R16
	VDUP R16, LOWS.D2
	MOVD $3, R14
	VDUP R14, THREE.D2
	MOVD $1, R14
	VDUP R14, ONE.D2
	MOVD $-48, R14
	VDUP R14, SHIFT_M.D2
	MOVD $-60, R14
	VDUP R14, SHIFT_W.D2
	MOVD $0x8040201008040201, R14
	VDUP R14, EACH_BIT.D2

	// The lines of 4 groups are on their way before the first is looked at.
	MOVD HASHES, AHEAD
	MOVD GROUPS, TO_ASK
	MOVD $4, R16
	CMP  R16, TO_ASK
	CSEL LO, TO_ASK, R16, R16
	SUB  R16, TO_ASK, TO_ASK

first:
	ASK_GROUP
	SUB  $1, R16, R16
	CBNZ R16, first

group:
	CBZ TO_ASK, asked
	ASK_GROUP
	SUB $1, TO_ASK, TO_ASK

asked:
	SPLIT(0, V0, V8)
	SPLIT(1, V1, V9)
	SPLIT(2, V2, V10)
	SPLIT(3, V3, V11)
	SPLIT(4, V4, V12)
	SPLIT(5, V5, V13)
	SPLIT(6, V6, V14)
	SPLIT(7, V7, V15)
	MOVD (EPOCH), BEFORE
	COUNTER(0, V16, F16)
	COUNTER(2, V17, F17)
	COUNTER(4, V18, F18)
	COUNTER(6, V19, F19)
	DMB  $0x9
	MATCH(0, V0)
	MATCH(1, V1)
	MATCH(2, V2)
	MATCH(3, V3)
	MATCH(4, V4)
	MATCH(5, V5)
	MATCH(6, V6)
	MATCH(7, V7)
	DMB  $0x9
	JOIN(V0, V1, V8, V9)
	JOIN(V2, V3, V10, V11)
	JOIN(V4, V5, V12, V13)
	JOIN(V6, V7, V14, V15)
	MOVD (EPOCH), R14
	EOR  BEFORE, R14, R14
	AND  $1, BEFORE, R15
	ORR  R15, R14, R14
	VDUP R14, V23.D2
	OPENED(0, V0, V8, V16)
	OPENED(2, V2, V10, V17)
	OPENED(4, V4, V12, V18)
	OPENED(6, V6, V14, V19)

	// A byte each, 0 or all bits.
	VUZP1 V2.S4, V0.S4, V0.S4
	VUZP1 V6.S4, V4.S4, V4.S4
	VUZP1 V10.S4, V8.S4, V8.S4
	VUZP1 V14.S4, V12.S4, V12.S4
	VUZP1 V4.H8, V0.H8, V0.H8
	VUZP1 V12.H8, V8.H8, V8.H8
	VUZP1 V0.B16, V0.B16, V0.B16
	VUZP1 V8.B16, V8.B16, V8.B16
	VMOVI $1, V20.B16
	VADD  V20.B16, V0.B16, V0.B16 // found: 1 where it was 0, 0 where all bits
	FMOVD.P F0, 8(FOUND)
	VAND  EACH_BIT.B16, V8.B16, V8.B16
	VADDV V8.B8, V8
	VMOV  V8.B[0], R14
	MOVBU.P R14, 1(OPEN)
	SUB   $1, GROUPS, GROUPS
	CBNZ  GROUPS, group
	RET
