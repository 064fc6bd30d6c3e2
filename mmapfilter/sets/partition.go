package sets

import (
	"context"
	"errors"
	"iter"
)

// Partition does a task: it hashes keys and spools the hashes in a directory. It may be repeated with
// the same keys, even by several machines at once. An error of the sequence is returned unchanged.
// progress, if not nil, is called now and then with the number of keys read so far.
func Partition(ctx context.Context, p *Plan, dir, task string, keys iter.Seq2[[]byte, error], progress func(done uint64)) (*Receipt, error) {
	s, err := NewSpool(p, dir, task)
	if err != nil {
		return nil, err
	}
	if err := s.addAll(ctx, keys, progress); err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s.Close()
}

// addAll adds keys. An error of the sequence is returned unchanged.
func (s *Spool) addAll(ctx context.Context, keys iter.Seq2[[]byte, error], progress func(done uint64)) error {
	const often = 1 << 14 // keys
	n := uint64(0)
	for key, err := range keys {
		if err == nil && n%often == 0 {
			err = context.Cause(ctx)
			if progress != nil {
				progress(n)
			}
		}
		if err == nil {
			err = s.Add(key)
		}
		if err != nil {
			return err
		}
		n++
	}
	return context.Cause(ctx) // it may have ended the sequence
}
