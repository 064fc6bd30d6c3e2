package pebbleguard

import (
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

func TestMethods(t *testing.T) {
	guardtest.Methods(t, []guardtest.Type{
		{
			Engine: reflect.TypeFor[*pebble.DB](), Ours: reflect.TypeFor[*DB](),
			Wrapped: `Apply ApplyNoSyncWait Close Delete DeleteRange DeleteSized Excise Get Ingest IngestAndExcise
				IngestWithStats Merge NewBatch NewBatchWithSize NewEventuallyFileOnlySnapshot NewIndexedBatch
				NewIndexedBatchWithSize NewIter NewIterWithContext NewSnapshot Set SingleDelete`,
			Refused: `IngestExternalFiles`,
			Harmless: `AsyncFlush CheckLevels Checkpoint Compact DebugCurrentVersion DebugString Download
				EstimateDiskUsage EstimateDiskUsageByBackingType Flush FormatMajorVersion
				GetAllowedWithoutPermission GetWaitingCompaction LSMViewURL LogData Metrics ObjProvider
				RangeKeyDelete RangeKeySet RangeKeyUnset RatchetFormatMajorVersion SSTables ScanInternal
				ScanStatistics Schedule SetCreatorID TableFormat TestOnlyWaitForCleaning`,
		},
		{
			Engine: reflect.TypeFor[*pebble.Batch](), Ours: reflect.TypeFor[*Batch](),
			Wrapped: `Apply Commit Get NewIter NewIterWithContext SetRepr`,
			Harmless: `AddInternalKey Close CommitStats Count Delete DeleteDeferred DeleteRange DeleteRangeDeferred
				DeleteSized DeleteSizedDeferred Empty Indexed Len LogData Merge MergeDeferred NewBatchOnlyIter
				RangeKeyDelete RangeKeyDeleteDeferred RangeKeySet RangeKeyUnset
				Reader Ref Repr Reset SeqNum Set SetDeferred SingleDelete
				SingleDeleteDeferred SyncWait Unref`,
		},
		{
			Engine: reflect.TypeFor[*pebble.Snapshot](), Ours: reflect.TypeFor[*Snapshot](),
			Wrapped:  `Get NewIter NewIterWithContext`,
			Harmless: `Close ScanInternal`,
		},
		{
			Engine: reflect.TypeFor[*pebble.EventuallyFileOnlySnapshot](), Ours: reflect.TypeFor[*EventuallyFileOnlySnapshot](),
			Wrapped:  `Get NewIter NewIterWithContext`,
			Harmless: `Close ScanInternal WaitForFileOnlySnapshot`,
		},
		{
			Engine: reflect.TypeFor[*pebble.Iterator](),
			Harmless: `Clone CloneWithContext Close DebugTree Error First HasPointAndRange Key Last LazyValue Metrics Next
				NextPrefix NextWithLimit Prev PrevWithLimit RangeBounds RangeKeyChanged RangeKeys ResetStats SeekGE
				SeekGEWithLimit SeekLT SeekLTWithLimit SeekPrefixGE SetBounds SetContext SetOptions Stats Valid Value
				ValueAndErr`,
		},
		{
			Engine: reflect.TypeFor[*pebble.DeferredBatchOp](), Harmless: `Finish`,
		},
	})
}
