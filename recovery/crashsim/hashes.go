package crashsim

import (
	"context"
	"io"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// sumOf returns a sum over the items of a file of hashes, the number of these items, and the
// layout.Kept to which its operations lead. It checks the whole file (K1), which must have no base.
func (v *Volume) sumOf(sb *layout.Superblock) (sum, items uint64, to layout.Kept, err error) {
	l, err := v.file(firstHashes)
	if err != nil {
		return 0, 0, to, err
	}
	kept, err := recovery.EndOfHashes(hashFile{l}, sb)
	if err != nil {
		return 0, 0, to, err
	}
	err = kept.Operations(context.Background(), kept.Header.FirstTail(), func(e hashes.Entry) {
		sum, items = sum+uint64(e.Items)*mix(e.Hash), items+uint64(e.Items)
		to.Add(e.Op, e.Items, e.Hash)
	})
	return sum, items, to, err
}

// A hashFile is a log that is used as a recovery.HashFile.
type hashFile struct{ *log }

func (f hashFile) Pages() (uint64, error) { return uint64(f.size) / hashes.PageWords, nil }

func (f hashFile) ReadPages(first uint64, words []uint64) error {
	from := int(first) * hashes.PageWords
	if from+len(words) > f.size {
		return io.EOF
	}
	copy(words, f.cache.words[from:])
	return nil
}

// WritePages stores words. They are dirty even if they do not change, because after a failed sync the
// disk may have other words. If WritePages fails, it stores the first half.
func (f hashFile) WritePages(first uint64, words []uint64) (err error) {
	from := int(first) * hashes.PageWords
	f.size = max(f.size, from+len(words))
	if f.volume.failsHashes() {
		words, err = words[:len(words)/2], errSync
	}
	for i, w := range words {
		f.disk.store(uint64(from+i), w)
	}
	f.volume.event(StoreLog)
	return err
}

// Truncate cuts the file. If the file grows again, the words that it had there are zero.
func (f hashFile) Truncate(pages uint64) error {
	if f.volume.failsHashes() {
		return errSync
	}
	for word := int(pages) * hashes.PageWords; word < f.size; word++ {
		if f.cache.words[word] != 0 {
			f.disk.store(uint64(word), 0)
		}
	}
	f.size = min(f.size, int(pages)*hashes.PageWords)
	f.volume.event(StoreLog)
	return nil
}

func (f *files) OpenHashes(n recovery.HashesName) (recovery.HashFile, error) {
	return f.openHashes(firstHashes + name(n))
}

func (f *files) openHashes(n name) (recovery.HashFile, error) {
	l, err := f.v.file(f.first + n)
	if err != nil {
		return nil, err
	}
	l.open = true
	return hashFile{l}, nil
}

// KeepHashes does nothing if no file has the name NextHashes.
func (f *files) KeepHashes() error {
	first := f.first + firstHashes
	if f.v.dir.names[first+name(recovery.NextHashes)] == noFile {
		return nil
	}
	f.v.keepName(first+name(recovery.CurrentHashes), first+name(recovery.NextHashes))
	return f.v.syncDir()
}

func (f *files) RemoveHashes(n recovery.HashesName) error {
	f.v.rename(f.first+firstHashes+name(n), noFile)
	return nil
}

func (f *files) CreateSet() (recovery.HashFile, error) {
	f.v.rename(f.first+setName, noFile)
	i := f.v.freeFile()
	l := f.v.logs[i]
	l.init(mostPages*hashes.PageWords, f.v.shift)
	l.size, l.durableSize, l.open = 0, 0, true
	f.v.rename(f.first+setName, i)
	return hashFile{l}, nil
}

func (f *files) OpenSet() (recovery.HashFile, error) { return f.openHashes(setName) }

func (f *files) RemoveSet() error {
	f.v.rename(f.first+setName, noFile)
	return nil
}

// mostPages is the largest size of a file of hashes, or of a set.
const mostPages = 64

// keepHashes gives an empty, clean filter an empty file of hashes, with a name.
func (v *Volume) keepHashes(seed uint64, n name) {
	i := v.freeFile()
	l := v.logs[i]
	l.size, l.durableSize, l.open = hashes.FirstBase*hashes.PageWords, hashes.FirstBase*hashes.PageWords, false
	l.init(mostPages*hashes.PageWords, v.shift)
	h := hashes.Header{Identity: identityOf(seed)}
	for i, w := range h.Page(0) {
		l.cache.set(uint64(i), w)
		l.durable.set(uint64(i), w)
	}
	v.dir.names[n] = i
}

// identityOf returns the identity of the hashes of a volume with a seed.
func identityOf(seed uint64) uint64 { return mix(seed) | 1 }
