package crashsim

import "fmt"

// An OpKind is what a client does.
type OpKind uint8

const (
	Insert OpKind = iota
	Delete        // skipped if the key is not in the filter: a client must not delete it then
	Sync
	SyncSeq // a sync whose user sequence is the number of the operation plus one
	Checkpoint
	Seal
	Reopen          // close in order, open again
	BeginCheckpoint // a sync, and the first half of a checkpoint unless one is under way
	EndCheckpoint   // the second half, if a checkpoint is under way
	Rebuild         // a new file with the same items takes the place of the filter
	Unique          // inserts the key unless a lookup answers "maybe"
)

// An Op is one operation of a trace.
type Op struct {
	Kind OpKind
	Key  int // for Insert, Unique and Delete
}

func (o Op) String() string {
	switch o.Kind {
	case Insert:
		return fmt.Sprintf("insert(%d)", o.Key)
	case Delete:
		return fmt.Sprintf("delete(%d)", o.Key)
	case Unique:
		return fmt.Sprintf("insert-unique(%d)", o.Key)
	}
	return [...]string{Sync: "sync", SyncSeq: "sync-seq", Checkpoint: "checkpoint", Seal: "seal", Reopen: "reopen", BeginCheckpoint: "begin-checkpoint", EndCheckpoint: "end-checkpoint", Rebuild: "rebuild"}[o.Kind]
}
