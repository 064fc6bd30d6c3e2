package server

// glob reports whether text matches a pattern of Redis: * is any bytes, ? is one, [a-z] and [^a-z] are
// one of a set, and \ takes the next byte as it is. The time is at most the product of both lengths:
// when bytes do not match, the last * takes one more, and no earlier one needs to.
func glob(pattern, text string) bool {
	p, t := 0, 0
	star, from := -1, 0 // after the last *; where the text that it does not take begins
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, from = p, t
			continue
		}
		if n := matchOne(pattern[p:], text[t]); n > 0 {
			p, t = p+n, t+1
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, t = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne returns how many bytes of the pattern stand for c, or 0 if the first ones do not.
func matchOne(pattern string, c byte) int {
	if pattern == "" {
		return 0
	}
	switch pattern[0] {
	case '?':
		return 1
	case '[':
		if n, in := matchSet(pattern[1:], c); in {
			return 1 + n
		}
		return 0
	case '\\':
		if len(pattern) > 1 {
			if pattern[1] == c {
				return 2
			}
			return 0
		}
	}
	if pattern[0] == c {
		return 1
	}
	return 0
}

// matchSet reports whether c is in a set, which it gets without its [, and returns its length with the
// ]. One that does not end has all the rest of the pattern.
func matchSet(set string, c byte) (n int, in bool) {
	not := len(set) > 0 && set[0] == '^'
	i := 0
	if not {
		i++
	}
	for ; i < len(set) && set[i] != ']'; i++ {
		if set[i] == '\\' && i+1 < len(set) {
			i++
		}
		low, high := set[i], set[i]
		if i+2 < len(set) && set[i+1] == '-' && set[i+2] != ']' {
			high = set[i+2]
			i += 2
		}
		in = in || min(low, high) <= c && c <= max(low, high)
	}
	return min(i+1, len(set)), in != not
}
