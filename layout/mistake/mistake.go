// Package mistake names fifteen mistakes that a crash-safe filter can make. Each
// is made in the code, at the place where it would be made, when a test asks for
// it, so that the evidence can be shown to find it: evidence that nothing can
// fail is none.
//
// Only a program built with the tag "faults" can make them. In any other,
// [Made] is false at compile time, and nothing is left of them.
package mistake

// A Mistake is one of the fifteen.
type Mistake int

const (
	None                  Mistake = iota
	RetrySync                     // retry after a failed fsync, and trust the second answer
	OneSlot                       // a single superblock slot
	ResetBeforeSuperblock         // the log starts again before the superblock that says so is durable
	MoveWithoutLog                // a relocation is stored without a record
	SkipEqual                     // recovery does not store words that already look right
	TrustCachedSuperblock         // recovery acts on a superblock that it did not store again
	NoRegionSync                  // a superblock is written without an msync of the region before it
	EarlyDelete                   // deletes are stored before their record is durable
	StoreBeforeLog                // recovery stores before the log is durable
	UnchainedLog                  // records without a chain, generations without a new salt
	RemoveBeforeCopy              // a move clears the source before it fills the destination
	LiveReplay                    // recovery replays in order under readers that are not told
	SyncWithoutStore              // recovery syncs the log without storing it again
	LazyCounters                  // a lookup loads the counters of a further place when it gets there, and goes on
	SecondLineFirst               // a delete takes from the second line before the stash
	count
)

var names = [count]string{
	"none",
	"retry after a failed fsync",
	"a single superblock slot",
	"log reset before the superblock is durable",
	"no log before a relocation",
	"recovery skips words already equal",
	"cached superblock trusted after a failed msync",
	"superblock without msync before it",
	"deletes stored early, with duplicates",
	"recovery stores before the log is durable",
	"log without chain or new salt",
	"removal before copy",
	"replay in order under live readers",
	"recovery syncs without storing",
	"counters loaded lazily",
	"delete takes the second line before the stash",
}

func (m Mistake) String() string { return names[m] }

// All lists the mistakes.
func All() []Mistake {
	all := make([]Mistake, 0, count-1)
	for m := None + 1; m < count; m++ {
		all = append(all, m)
	}
	return all
}
