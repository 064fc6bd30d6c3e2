package server

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// A refusal is an error in the words that the client gets.
type refusal string

func (r refusal) Error() string { return string(r) }

// Refusals in the words of Redis and of RedisBloom. RedisBloom begins only some of its errors with
// ERR.
const (
	errMissing   = refusal("ERR not found")
	errExists    = refusal("ERR item exists")
	errWrongType = refusal("WRONGTYPE Operation against a key holding the wrong kind of value")
	errNoKey     = refusal("ERR no such key")
	errSyntax    = refusal("ERR syntax error")
	errPosition  = refusal("Invalid position")
	errInteger   = refusal("ERR value is not an integer or out of range")

	errWords = refusal("wrong number of arguments") // errorText adds the command
	errPart  = refusal("unknown subcommand")        // errorText adds the command
)

// errorText returns the error of a command as clients get it.
func errorText(cmd *command, args [][]byte, err error) string {
	own := refusal("")
	switch {
	case errors.Is(err, errWords):
		return fmt.Sprintf("ERR wrong number of arguments for '%s' command", lower(cmd.name))
	case errors.Is(err, errPart):
		return fmt.Sprintf("ERR unknown subcommand '%s'. Try %s %s", clip(args[1]), cmd.name, cmd.usage)
	case errors.As(err, &own):
		return string(own)
	case errors.Is(err, mmapfilter.ErrFull) && cmd.name[0] == 'B':
		return "ERR non scaling filter is full"
	case errors.Is(err, mmapfilter.ErrFull):
		return "Filter is full"
	}
	return "ERR " + err.Error()
}

// clip returns the beginning of a text of a client, for an error.
func clip(text []byte) string { return string(text[:min(len(text), 128)]) }

// after returns the word that follows a name in words, or nil if the name is the last word.
func after(words [][]byte, name string) (value []byte, found bool) {
	for i, w := range words {
		if same(w, name) {
			if i+1 < len(words) {
				value = words[i+1]
			}
			return value, true
		}
	}
	return nil, false
}

func parseRate(text []byte) (rate float64, ok bool) {
	rate, err := strconv.ParseFloat(string(text), 64)
	return rate, err == nil
}

func between(rate float64) bool { return rate > 0 && rate < 1 }

// reserveCuckoo reads the words of CF.RESERVE after the key. It ignores unknown words.
func (s *settings) reserveCuckoo(capacity []byte, words [][]byte) error {
	n, ok := resp.Number(capacity)
	if !ok {
		return refusal("Bad capacity")
	}
	numbers := []struct {
		name        string
		least, most int64
		to          *int64
	}{{"MAXITERATIONS", 1, 65535, &s.iterations}, {"BUCKETSIZE", 1, 255, &s.bucketSize}, {"EXPANSION", 0, 32768, &s.expansion}}
	for _, o := range numbers {
		if value, found := after(words, o.name); found {
			if *o.to, ok = resp.Number(value); !ok {
				return refusal("Couldn't parse " + o.name)
			}
		}
	}
	for _, o := range numbers {
		if *o.to < o.least || *o.to > o.most {
			return refusal(fmt.Sprintf("%s: value must be in the range [%d, %d]", o.name, o.least, o.most))
		}
	}
	if value, found := after(words, "RATE"); found {
		if s.rate, ok = parseRate(value); !ok || !between(s.rate) {
			return refusal("RATE: value must be between 0 and 1")
		}
	}
	if n < 2*s.bucketSize {
		return refusal("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]")
	}
	s.capacity = uint64(n)
	return nil
}

// reserveBloom reads the words of BF.RESERVE after the key.
func (s *settings) reserveBloom(rate, capacity []byte, words [][]byte) error {
	var isRate bool
	s.rate, isRate = parseRate(rate)
	n, isCapacity := resp.Number(capacity)
	_, fixed := after(words, "NONSCALING")
	value, expands := after(words, "EXPANSION")
	if fixed {
		s.expansion = 0
	}
	isExpansion := true
	if value != nil {
		s.expansion, isExpansion = resp.Number(value)
	}
	s.capacity = uint64(n)
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{!isRate, "ERR bad error rate"},
		{!between(s.rate), "ERR error rate must be in the range (0.000000, 1.000000)"},
		{!isCapacity, "ERR bad capacity"},
		{n < 1, "ERR capacity must be in the range [1, 1073741824]"},
		{expands && value == nil, "ERR no expansion"},
		{!isExpansion, "ERR bad expansion"},
		{s.expansion < 0 || s.expansion > 32768, "ERR expansion must be in the range [0, 32768]"},
		{fixed && s.expansion > 0, "Nonscaling filters cannot expand"},
	} {
		if rule.broken {
			return refusal(rule.text)
		}
	}
	return nil
}

// An insertion is what the words of an INSERT say.
type insertion struct {
	settings
	noCreate bool
	items    [][]byte
}

// read reads the words of an INSERT after the key. As in RedisBloom, an option is known by its
// first letters.
func (in *insertion) read(words [][]byte) error {
	for i := 0; i < len(words); i++ {
		letter := optionLetter(words[i], in.kind)
		switch letter {
		case 'i':
			if in.items = words[i+1:]; len(in.items) > 0 {
				return nil
			}
			return errWords
		case 'n':
			in.noCreate = true
		case 's':
			in.expansion = 0
		case 0:
			return refusal("Unknown argument received")
		default:
			if i++; i == len(words) {
				return errWords
			}
			if err := in.set(letter, words[i]); err != nil {
				return err
			}
		}
	}
	return errWords // no items
}

// set sets the field of an option that has a value.
func (in *insertion) set(letter byte, value []byte) error {
	n, whole := resp.Number(value)
	rate, isRate := parseRate(value)
	switch {
	case letter == 'c' && whole && n > 0:
		in.capacity = uint64(n)
	case letter == 'c':
		return refusal("Bad capacity")
	case letter == 'x' && whole && n >= 0 && n <= 32768:
		in.expansion = n
	case letter == 'x':
		return refusal("Bad expansion")
	case isRate && between(rate):
		in.rate = rate
	default:
		return refusal("Bad error rate")
	}
	return nil
}

// optionLetter returns a letter for an option of INSERT: c for CAPACITY, i for ITEMS, n for
// NOCREATE; and only for Bloom filters, r for ERROR, x for EXPANSION, s for NONSCALING. It returns
// 0 for an unknown option.
func optionLetter(word []byte, k kind) byte {
	letters := [3]byte{}
	for i := range copy(letters[:], word) {
		letters[i] |= 0x20
	}
	switch first := letters[0]; {
	case first == 'c' || first == 'i', first == 'n' && (k == cuckoo || letters[2] == 'c'):
		return first
	case k == bloom && first == 'n':
		return 's'
	case k == bloom && first == 'e' && letters[1] == 'r':
		return 'r'
	case k == bloom && first == 'e':
		return 'x'
	}
	return 0
}
