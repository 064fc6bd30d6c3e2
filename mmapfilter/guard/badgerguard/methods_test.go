package badgerguard

import (
	"errors"
	"reflect"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

func TestMethods(t *testing.T) {
	guardtest.Methods(t, []guardtest.Type{
		{
			Engine: reflect.TypeFor[*badger.DB](), Ours: reflect.TypeFor[*DB](),
			Wrapped: `Backup BanNamespace Close DropAll DropPrefix GetMergeOperator GetSequence NewStream NewTransaction
				NewWriteBatch RunValueLogGC Subscribe Update View`,
			Harmless: `BannedNamespaces BlockCacheMetrics CacheMaxCost EstimateSize Flatten IndexCacheMetrics IsClosed Levels
				LevelsToString MaxBatchCount MaxBatchSize MaxVersion Opts PrintHistogram Ranges Size Sync Tables
				VerifyChecksum`,
			Refused: `Load NewKVLoader NewManagedWriteBatch NewStreamAt NewStreamWriter NewTransactionAt NewWriteBatchAt
				SetDiscardTs StreamDB`,
		},
		{
			Engine: reflect.TypeFor[*badger.Txn](), Ours: reflect.TypeFor[*Txn](),
			Wrapped:  `Commit CommitWith Delete Discard Get NewIterator NewKeyIterator Set SetEntry`,
			Harmless: `ReadTs`,
			Refused:  `CommitAt`,
		},
		{
			Engine: reflect.TypeFor[*badger.WriteBatch](), Ours: reflect.TypeFor[*WriteBatch](),
			Wrapped: `Cancel Delete Error Flush Lock Set SetEntry SetMaxPendingTxns TryLock Unlock`,
			Refused: `DeleteAt SetEntryAt Write WriteList`,
		},
		{
			Engine: reflect.TypeFor[*badger.Iterator](), Ours: reflect.TypeFor[*Iterator](),
			Wrapped:  `Next Rewind Seek`,
			Harmless: `Close Item Valid ValidForPrefix`,
		},
		{
			Engine: reflect.TypeFor[*badger.Item](), Ours: reflect.TypeFor[*badger.Item](),
			Harmless: `DiscardEarlierVersions EstimatedSize ExpiresAt IsDeletedOrExpired Key KeyCopy KeySize String UserMeta
				Value ValueCopy ValueSize Version`,
		},
		{
			Engine: reflect.TypeFor[*badger.Entry](), Ours: reflect.TypeFor[*badger.Entry](),
			Harmless: `WithDiscard WithMeta WithTTL`,
		},
		{
			Engine: reflect.TypeFor[*badger.Sequence](), Ours: reflect.TypeFor[*badger.Sequence](),
			Harmless: `Next Release`, // the filter keeps its key
		},
		{
			Engine: reflect.TypeFor[*badger.MergeOperator](), Ours: reflect.TypeFor[*MergeOperator](),
			Wrapped:  `Add Get Stop`,
			Harmless: `Lock RLock RLocker RUnlock TryLock TryRLock Unlock`,
		},
		{
			Engine: reflect.TypeFor[*badger.Stream](), Ours: reflect.TypeFor[*badger.Stream](),
			Harmless: `Backup Orchestrate SendDoneMarkers ToList`,
		},
		{Engine: reflect.TypeFor[*badger.StreamWriter](), Refused: `Cancel Flush Prepare PrepareIncremental Write`},
		{Engine: reflect.TypeFor[*badger.KVLoader](), Refused: `Finish Set`},
	})
}

// TestRefused calls the functions and methods that are refused.
func TestRefused(t *testing.T) {
	d := open(t, small(t.TempDir()), guardtest.Quiet(guard.Rebuild))
	b := d.NewWriteBatch()
	defer b.Cancel()
	managed, err := badger.OpenManaged(small(t.TempDir()))
	must(t, err)
	o := managed.Opts()
	must(t, managed.Close())
	_, loader := d.NewKVLoader(1)
	_, writer := d.NewStreamWriter()
	_, at := d.NewTransactionAt(1, false)
	_, batchAt := d.NewWriteBatchAt(1)
	_, managedBatch := d.NewManagedWriteBatch()
	_, streamAt := d.NewStreamAt(1)
	_, asManaged := OpenManaged(small(t.TempDir()), nil)
	_, inMemory := Open(badger.DefaultOptions("").WithInMemory(true), nil)
	_, wasManaged := Open(o, nil)
	for i, err := range []error{
		loader, writer, at, batchAt, managedBatch, streamAt, asManaged, inMemory, wasManaged,
		d.Load(nil, 1), d.StreamDB(badger.Options{}), d.SetDiscardTs(1), d.NewTransaction(false).CommitAt(1, nil),
		b.Write(nil), b.WriteList(nil), b.SetEntryAt(nil, 1), b.DeleteAt(nil, 1),
	} {
		if !errors.Is(err, ErrNotFollowed) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
