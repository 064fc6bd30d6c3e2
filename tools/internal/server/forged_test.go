package server

import (
	"encoding/binary"
	"errors"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// forged returns a dump of one chunk, whose last bytes are hashes.
func forged(file, hashes []byte) []part {
	chunk := binary.LittleEndian.AppendUint64(nil, 0)
	chunk = binary.LittleEndian.AppendUint64(chunk, uint64(len(file)))
	chunk = binary.LittleEndian.AppendUint64(chunk, uint64(len(file)+len(hashes)))
	return []part{{"1", dumpHeader + string(cuckoo)}, {"2", string(chunk) + string(file) + string(hashes)}}
}

// filterFiles creates a filter and returns its files as they are after Close or, if live is set, before.
func filterFiles(t testing.TB, o mmapfilter.Options, live bool) (file, hashes []byte) {
	path := filepath.Join(t.TempDir(), "f")
	o.Capacity = 1000
	f, err := mmapfilter.Create(path, &o)
	must(t, err)
	defer f.Close()
	must(t, f.Insert([]byte("x")))
	if !live {
		err = f.Close()
	}
	file, err2 := os.ReadFile(path)
	hashes, err3 := os.ReadFile(path + ".hashes")
	if err := errors.Join(err, err2); err != nil || o.KeepHashes && err3 != nil {
		t.Fatal(err, err3)
	}
	return file, hashes
}

// FuzzLoad loads files that no server has dumped. Whatever they are, the client must get OK or an error,
// and commands on the key must get replies. Another key must stay as it was.
func FuzzLoad(f *testing.F) {
	for _, c := range []struct {
		o    mmapfilter.Options
		live bool
	}{
		{mmapfilter.Options{}, false},
		{mmapfilter.Options{KeepHashes: true}, false},
		{mmapfilter.Options{KeepHashes: true}, true},
		{mmapfilter.Options{AutoGrow: true, KeepHashes: true, KeepChanges: time.Hour, ExpireAfter: 10 * time.Second}, false},
		{mmapfilter.Options{Normalisation: "served=CF,0,-5,99999999999999999999"}, false},
		{mmapfilter.Options{Normalisation: "served=BF,1,1,1", KeepHashes: true}, false},
		{mmapfilter.Options{Layout: layout.SemiSorted, FingerprintBits: 13}, false},
	} {
		file, hashes := filterFiles(f, c.o, c.live)
		f.Add(file, hashes, uint32(0), byte(0))
		if !c.o.KeepHashes || c.live {
			continue
		}
		f.Add(file, hashes, uint32(0), byte(1))                     // another magic number
		f.Add(file, hashes, uint32(layout.OffRegion+20), byte(1))   // a damaged line
		f.Add(file, hashes, uint32(len(file)+len(hashes)), byte(0)) // a byte too much
		f.Add(file, []byte{}, uint32(0), byte(0))
		f.Add([]byte{}, hashes, uint32(0), byte(0))
	}
	_, addr := start(f, Config{Logf: log.Printf})
	dial(f, addr).want("CF.ADD CFother x", ":1")
	f.Fuzz(func(t *testing.T, file, hashes []byte, at uint32, change byte) {
		p := dial(t, addr)
		dump := forged(file, hashes)
		data := []byte(dump[1].data)
		if at := prefixBytes + int(at); at < len(data) {
			data[at] ^= change
		} else {
			data = append(data, change)
		}
		dump[1].data = string(data)
		reply := p.load("CFk", dump)
		if reply != "+OK" && reply != "-Couldn't load chunk!" && reply != "-"+string(errOtherKind) {
			t.Error(reply)
		}
		for _, command := range []string{"CF.EXISTS CFk x", "CF.ADD CFk y", "CF.ADDNX CFk z", "CF.DEL CFk z", "CF.COUNT CFk x", "CF.INFO CFk",
			"CF.COMPACT CFk", "CF.SCANDUMP CFk 1", "EXPIRE CFk 1000", "RENAME CFk CFl", "CF.EXISTS CFl y", "DEL CFk CFl"} {
			if got := p.do(command); got == "(closed)" {
				t.Errorf("%s: %s", command, got)
			}
		}
		p.want("CF.EXISTS CFother x", ":1")
	})
}
