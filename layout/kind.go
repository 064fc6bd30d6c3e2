package layout

import "fmt"

// A Kind is the number of a layout in the superblock. Numbers are never reused.
type Kind uint8

const (
	Auto       Kind = 0 // choose a layout; never in a file
	Packed     Kind = 3
	SemiSorted Kind = 4
	Compact    Kind = 7
)

// kindNames has Auto and the layouts that have registered.
var kindNames = map[Kind]string{Auto: "auto"}

// String returns the name of the layout, such as "compact".
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ParseKind returns the layout with a name from [Kind.String]. It reports false if there is
// none.
func ParseKind(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return k, true
		}
	}
	return 0, false
}

// MarshalText returns the name of the layout, for JSON and similar formats.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets k to the layout with this name.
func (k *Kind) UnmarshalText(name []byte) error {
	kind, ok := ParseKind(string(name))
	if !ok {
		return fmt.Errorf("layout: unknown layout %q", name)
	}
	*k = kind
	return nil
}
