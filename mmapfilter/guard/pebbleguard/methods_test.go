package pebbleguard

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// methods lists what an engine's type offers, and what becomes of it.
type methods struct {
	of      reflect.Type // of the engine
	with    reflect.Type // that has methods in its place
	wrapped string       // the methods that it has
	refused string       // those of them that always fail
	plain   string       // the engine's own: they write no keys, or only collect them until a commit
}

var pebbleMethods = []methods{
	{
		of: reflect.TypeFor[*pebble.DB](), with: reflect.TypeFor[*DB](),
		wrapped: `Apply ApplyNoSyncWait Close Delete DeleteRange DeleteSized Excise Get Ingest IngestAndExcise
			IngestWithStats Merge NewBatch NewBatchWithSize NewEventuallyFileOnlySnapshot NewIndexedBatch
			NewIndexedBatchWithSize NewIter NewIterWithContext NewSnapshot Set SingleDelete`,
		refused: `IngestExternalFiles`,
		plain: `AsyncFlush CheckLevels Checkpoint Compact DebugCurrentVersion DebugString Download
			EstimateDiskUsage EstimateDiskUsageByBackingType Flush FormatMajorVersion
			GetAllowedWithoutPermission GetWaitingCompaction LSMViewURL LogData Metrics ObjProvider
			RangeKeyDelete RangeKeySet RangeKeyUnset RatchetFormatMajorVersion SSTables ScanInternal
			ScanStatistics Schedule SetCreatorID TableFormat TestOnlyWaitForCleaning`,
	},
	{
		of: reflect.TypeFor[*pebble.Batch](), with: reflect.TypeFor[*Batch](),
		wrapped: `Apply Commit Get NewIter NewIterWithContext SetRepr`,
		plain: `AddInternalKey Close CommitStats Count Delete DeleteDeferred DeleteRange DeleteRangeDeferred
			DeleteSized DeleteSizedDeferred Empty Indexed Len LogData Merge MergeDeferred NewBatchOnlyIter
			RangeKeyDelete RangeKeyDeleteDeferred RangeKeySet RangeKeyUnset
			Reader Ref Repr Reset SeqNum Set SetDeferred SingleDelete
			SingleDeleteDeferred SyncWait Unref`,
	},
	{
		of: reflect.TypeFor[*pebble.Snapshot](), with: reflect.TypeFor[*Snapshot](),
		wrapped: `Get NewIter NewIterWithContext`,
		plain:   `Close ScanInternal`,
	},
	{
		of: reflect.TypeFor[*pebble.EventuallyFileOnlySnapshot](), with: reflect.TypeFor[*EventuallyFileOnlySnapshot](),
		wrapped: `Get NewIter NewIterWithContext`,
		plain:   `Close ScanInternal WaitForFileOnlySnapshot`,
	},
	{
		of: reflect.TypeFor[*pebble.Iterator](),
		plain: `Clone CloneWithContext Close DebugTree Error First HasPointAndRange Key Last LazyValue Metrics Next
			NextPrefix NextWithLimit Prev PrevWithLimit RangeBounds RangeKeyChanged RangeKeys ResetStats SeekGE
			SeekGEWithLimit SeekLT SeekLTWithLimit SeekPrefixGE SetBounds SetContext SetOptions Stats Valid Value
			ValueAndErr`,
	},
	{
		of: reflect.TypeFor[*pebble.DeferredBatchOp](), plain: `Finish`,
	},
}

// TestMethods fails when a new version of Pebble has a method that nobody has thought about (G4).
func TestMethods(t *testing.T) {
	for _, m := range pebbleMethods {
		wrapped := append(strings.Fields(m.wrapped), strings.Fields(m.refused)...)
		plain := strings.Fields(m.plain)
		var have []string
		for i := range m.of.NumMethod() {
			name := m.of.Method(i).Name
			have = append(have, name)
			if slices.Contains(wrapped, name) == slices.Contains(plain, name) {
				t.Errorf("%v.%s is in none of the lists, or in two", m.of, name)
			}
		}
		for _, name := range append(wrapped, plain...) {
			if !slices.Contains(have, name) {
				t.Errorf("%v has no method %s", m.of, name)
			}
		}
		for _, name := range wrapped {
			if !declares(m.with, name) {
				t.Errorf("%v.%s is that of %v", m.with, name, m.of)
			}
		}
	}
}

// declares reports whether a type has a method of its own, not one of the type that it embeds: what is
// promoted is in no file.
func declares(typ reflect.Type, name string) bool {
	m, ok := typ.MethodByName(name)
	if !ok {
		return false
	}
	file, _ := runtime.FuncForPC(m.Func.Pointer()).FileLine(m.Func.Pointer())
	return strings.HasSuffix(file, ".go")
}
