// Package all has every layout of this module register with package layout.
package all

import (
	_ "github.com/mmapfilter/mmapfilter/layout/compact" // Compact
	_ "github.com/mmapfilter/mmapfilter/layout/paper"   // Packed and SemiSorted
)
