package hashes

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/crc32"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Sizes of the file.
const (
	PageBytes = 4096
	PageWords = PageBytes / 8
	BaseItems = 464 // in a page of the base
	MostAges  = 64
	FirstBase = 3 // page

	tailEntries = 478 // in a page of the tail

	version = 2

	headerAges   = 8 // word of the first age
	ageWords     = 3
	headerAt     = headerAges + ageWords*MostAges // word of the position
	headerBefore = headerAt + 2
	headerCheck  = PageWords - 1
	baseAges     = 1 + BaseItems
	agesInWord   = 10
	ageBits      = 6
	tailFirst    = 4
	tailKinds    = tailFirst + tailEntries
	kindsInWord  = 16
	kindBits     = 4
	countShift   = 32
	checkMask    = 1<<32 - 1
	_            = uint(PageWords - baseAges - (BaseItems+agesInWord-1)/agesInWord) // compiles only if all parts of a page fit on it
	_            = uint(PageWords - tailKinds - (tailEntries+kindsInWord-1)/kindsInWord)
	_            = uint(headerCheck - headerBefore - 3)
	checkedBytes = 3*8 + PageBytes
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	magic      = binary.LittleEndian.Uint64([]byte("MMAPFHSH"))
)

// A Page is a page of the file.
type Page [PageWords]uint64

// A Place says where a page belongs. The check of a page covers its place.
type Place struct {
	Identity uint64
	Number   uint64
	Before   uint32 // check of the page before this one in the order of checks
}

// checked has buffers for the bytes that a check covers, which would be allocated anew for each page.
var checked = sync.Pool{New: func() any { return new([checkedBytes]byte) }}

// check computes the check of a page, which is never 0. It takes zero for the bits of word i that
// store the check.
func (p *Page) check(at Place, i int) uint32 {
	b := checked.Get().(*[checkedBytes]byte)
	defer checked.Put(b)
	binary.LittleEndian.PutUint64(b[0:], at.Identity)
	binary.LittleEndian.PutUint64(b[8:], at.Number)
	binary.LittleEndian.PutUint64(b[16:], uint64(at.Before))
	for j, w := range p {
		if j == i {
			w &^= checkMask
		}
		binary.LittleEndian.PutUint64(b[24+8*j:], w)
	}
	return max(crc32.Checksum(b[:], castagnoli), 1)
}

// sign computes the check of a page, stores it in word i and returns it.
func (p *Page) sign(at Place, i int) uint32 {
	p[i] &^= checkMask
	check := p.check(at, i)
	p[i] |= uint64(check)
	return check
}

// verify returns an error if word i of a page does not have the check of the page.
func (p *Page) verify(at Place, i int) error {
	if uint32(p[i]) != p.check(at, i) {
		return Corrupt(at.Number, "the page has a wrong check: it is damaged, or not of this file")
	}
	return nil
}

// Check returns the check that is stored in a page, right or wrong.
func (p *Page) Check(number uint64) uint32 {
	if number == 0 {
		return uint32(p[headerCheck])
	}
	return uint32(p[0])
}

// Corrupt returns the error for a page that breaks K1.
func Corrupt(page uint64, format string, args ...any) error {
	return &layout.CorruptError{Region: layout.RegionHashes, Offset: int64(page) * PageBytes, Rule: "K1", What: fmt.Sprintf(format, args...)}
}

// A Header is what page 0 says.
type Header struct {
	Identity uint64
	Items    uint64 // in the base
	Pages    uint64 // of the base
	Sum      uint64 // of the hashes of the base
	Ages     []Age
	At       layout.Position // the base has the history up to this position
	Before   layout.Hashes   // the file that this file has replaced, and how much of it counted; or zero
}

// An Age is a group of items of the base. Its times are in nanoseconds since 1970.
type Age struct {
	First, Last uint64
	Items       uint64 // number of items of this age when the base was written
}

// Page returns the page of a header. before is the check of the last page of the base, or 0.
func (h *Header) Page(before uint32) *Page {
	p := &Page{magic, version, h.Identity, h.Items, h.Pages, h.Sum, uint64(len(h.Ages))}
	for i, a := range h.Ages {
		*(*[ageWords]uint64)(p[headerAges+ageWords*i:]) = [ageWords]uint64{a.First, a.Last, a.Items}
	}
	p[headerAt], p[headerAt+1] = h.At.Number, h.At.Chain
	b := h.Before
	p[headerBefore], p[headerBefore+1], p[headerBefore+2] = b.Identity, b.Pages, uint64(b.Check)|uint64(b.Last)<<32
	p.sign(Place{Identity: h.Identity, Before: before}, headerCheck)
	return p
}

// PagesOfBase returns how many pages the base has, according to a page that may be a header.
func (p *Page) PagesOfBase() uint64 { return p[4] }

// ReadHeader returns the header of the file with an identity. before is the check of the last
// page of the base, or 0.
func ReadHeader(p *Page, identity uint64, before uint32) (h Header, err error) {
	switch {
	case p[0] != magic:
		return h, Corrupt(0, "there is no magic: it is not a file of hashes")
	case p[2] != identity:
		return h, Corrupt(0, "it belongs to another filter, or to this filter at another time")
	}
	if err := p.verify(Place{Identity: identity, Before: before}, headerCheck); err != nil {
		return h, err
	}
	if p[1] != version {
		return h, Corrupt(0, "it has version %d, but this program reads version %d: build the filter again from its keys", p[1], version)
	}
	if p[6] > MostAges || p[4] != pagesOf(p[3]) {
		return h, Corrupt(0, "impossible numbers: %d ages, %d pages for %d items", p[6], p[4], p[3])
	}
	w := p[headerAt:]
	h = Header{
		Identity: identity, Items: p[3], Pages: p[4], Sum: p[5], At: layout.Position{Number: w[0], Chain: w[1]},
		Before: layout.Hashes{Identity: w[2], Pages: w[3], Check: uint32(w[4]), Last: uint32(w[4] >> 32)},
	}
	for i := range int(p[6]) {
		w := p[headerAges+ageWords*i:]
		h.Ages = append(h.Ages, Age{w[0], w[1], w[2]})
	}
	return h, nil
}

// IdentityOf returns the identity in the first words of a file of hashes, even if the file is
// damaged. It reports false if there is no magic.
func IdentityOf(words []uint64) (identity uint64, ok bool) {
	if len(words) < 3 || words[0] != magic {
		return 0, false
	}
	return words[2], true
}

// FirstTail returns the number of the first page of the tail.
func (h *Header) FirstTail() uint64 { return FirstBase + h.Pages }

// Tail returns the place where the tail begins. check is the check of the header.
func (h *Header) Tail(check uint32) TailPlace {
	return TailPlace{Place{h.Identity, h.FirstTail(), check}, h.At}
}

// pagesOf returns how many pages the base takes for a number of items.
func pagesOf(items uint64) uint64 { return items/BaseItems + min(items%BaseItems, 1) }

// An Item is an item of the base.
type Item struct {
	Hash uint64
	Age  int
}

// ReadBase calls each for the items of a page of the base. before is the check of the page
// before it, or 0.
func (h *Header) ReadBase(p *Page, number uint64, before uint32, each func(Item)) error {
	at := Place{h.Identity, number, before}
	if err := p.verify(at, 0); err != nil {
		return err
	}
	n := min(h.Items-(at.Number-FirstBase)*BaseItems, BaseItems)
	if p[0]>>countShift != n {
		return Corrupt(at.Number, "it has %d items of the base, not %d", p[0]>>countShift, n)
	}
	last := Item{}
	for i := range int(n) {
		it := p.baseItem(i)
		if it.Hash < last.Hash || it.Hash == last.Hash && it.Age < last.Age || it.Age >= len(h.Ages) {
			return Corrupt(at.Number, "item %d is out of order, or its age does not exist", i)
		}
		each(it)
		last = it
	}
	return nil
}

func (p *Page) baseItem(i int) Item {
	return Item{p[1+i], int(p[baseAges+i/agesInWord] >> (i % agesInWord * ageBits) & (MostAges - 1))}
}

// FirstHash returns the first hash on a page of the base, for a search. It does not check the
// page.
func (p *Page) FirstHash() uint64 { return p[1] }

// Hashes returns the hashes on a page of the base that ReadBase has checked.
func (p *Page) Hashes() []uint64 { return p[1:][:p[0]>>countShift] }

// A Base lays out a base, page by page.
type Base struct {
	write  func(number uint64, page []uint64) error
	page   Page
	n      int    // items on page
	check  uint32 // of the last page that was written
	header Header
}

// NewBase begins a base. Its header is h, but End fills in what depends on the items.
func NewBase(h Header, write func(number uint64, page []uint64) error) *Base {
	h.Ages, h.Items, h.Pages, h.Sum = slices.Clone(h.Ages), 0, 0, 0
	b := &Base{write: write, header: h}
	for i := range b.header.Ages {
		b.header.Ages[i].Items = 0
	}
	return b
}

// Add adds an item. Hashes must come in ascending order, equal hashes by age.
func (b *Base) Add(it Item) error {
	b.page[1+b.n] = it.Hash
	b.page[baseAges+b.n/agesInWord] |= uint64(it.Age) << (b.n % agesInWord * ageBits)
	b.header.Ages[it.Age].Items++
	b.header.Items++
	b.header.Sum += it.Hash
	if b.n++; b.n < BaseItems {
		return nil
	}
	return b.flush()
}

func (b *Base) flush() error {
	b.page[0] = uint64(b.n) << countShift
	at := Place{b.header.Identity, FirstBase + b.header.Pages, b.check}
	b.header.Pages++
	b.check = b.page.sign(at, 0)
	err := b.write(at.Number, b.page[:])
	b.page, b.n = Page{}, 0
	return err
}

// End writes the last page of the base, the header, and the two pages after the header, which are zero.
// It returns the header, and where the tail begins.
func (b *Base) End() (h Header, tail TailPlace, err error) {
	if b.n > 0 {
		if err := b.flush(); err != nil {
			return h, tail, err
		}
	}
	p := b.header.Page(b.check)
	tail = b.header.Tail(p.Check(0))
	for i := range uint64(FirstBase) {
		if err := b.write(i, p[:]); err != nil {
			return h, tail, err
		}
		p = new(Page)
	}
	return b.header, tail, nil
}
