// Package bboltguard is bbolt behind a filter: reads of absent keys do not reach the B+tree.
//
// A program changes its import and the call of Open, which takes the options of the guard as well:
// README.md shows a program before and after. Package guard says what the filter promises, and how it
// keeps these promises.
//
// [DB], [Tx], [Bucket] and [Cursor] have the methods of their namesakes in bbolt. [Bucket.Get] and
// [Bucket.Has] ask the filter first, in read transactions and in writable ones.
//
// # Keys
//
// For each key of the store, the filter has one key, which begins with the names of the buckets: so
// equal keys in different buckets are different. guard.Options.Covers gets such keys; [SplitKey]
// takes them apart, [JoinKey] makes them. Buckets themselves are not in the filter: [Bucket.Bucket]
// asks the store.
//
// # What the guard does
//
// A writable transaction collects its keys. Just before it is committed they are put into the filter,
// and into a bucket of the guard's own in the same transaction. So a key is in the filter before
// anyone can see it in the store, and a key that is rolled back was never in the filter. A key
// leaves the filter once its delete is durable (guard.Exact, the default), or when the filter is
// rebuilt (guard.Rebuild).
//
//	operation                                     what the guard does
//	Bucket.Put                                    puts the key
//	Bucket.Delete, Cursor.Delete                  deletes the key
//	DB.Update, DB.Begin, Tx.Commit                puts what the transaction has put, right before its commit
//	Tx.Rollback, an error or panic in Update      nothing
//	Tx.Commit that fails                          takes the keys back, unless the transaction is there nonetheless
//	DB.Batch                                      as Update; a function that bbolt runs again counts once
//	Bucket.Get, Has in a writable transaction     asks the store for what the transaction has put itself
//	Bucket.Get, Has in a read transaction         asks the store if keys have left the filter since it began
//	CreateBucket, CreateBucketIfNotExists         nothing: a bucket has no keys at first
//	DeleteBucket                                  reads the keys of the bucket and those within it, and deletes them
//	MoveBucket                                    reads them, deletes them, and puts them with their new path
//	MoveBucket of a bucket into itself            ErrNotFollowed
//	Put, Delete in a stale bucket object          ErrNotFollowed: bbolt may lose the write, or not
//	Bucket.SetRootPage                            ErrNotFollowed
//	NextSequence, SetSequence, FillPercent        nothing: they are not keys
//	Cursor, ForEach, Inspect                      nothing; in the root they hide the reserved buckets
//	any write to a reserved bucket                ErrReserved
//	Compact, Tx.WriteTo, Tx.CopyFile              nothing: the copy has no filter, and gets one when it is opened
//	writes by another program                     Open rebuilds the filter
//	writes through DB.DB                          the next Open does; until then call guard.Guard.Rebuild
//
// With guard.Exact, a transaction remembers the keys of deleted buckets only up to a limit. Other
// keys stay in the filter until it is rebuilt.
//
// # Reserved buckets
//
// guard.Options.Prefix is the name of a bucket in the root that has the entries of the guard: which
// filter belongs to the store, and the keys that the filter may not have durably yet. Programs do not
// see it, but other programs that open the file do, and so does bbolt.Compact. The same goes for the
// bucket guard.OwnerName: it is small, and all guards share it, whatever their Prefix.
//
// # Crashes
//
// No commit waits for another sync. The keys that the filter lacks after a crash are in the reserved
// bucket; package guard says when the filter is rebuilt instead. With bbolt.Options.NoSync a power
// loss may damage the store itself; while the store is whole, the filter has its keys.
//
// # A step back
//
// bbolt numbers the writable transactions. Each transaction of a guard puts its number into the bucket
// guard.OwnerName, if the bucket has the number of the transaction before, or there is no filter yet. If
// this bucket does not have the number of the last transaction when the store is opened, a program
// without this package has written to the store, and Open rebuilds the filter. Some transactions
// of bbolt itself look the same: Compact gives the copy other numbers, and Open makes one if the store
// was written with bbolt.Options.NoFreelistSync and is opened without it.
//
// # What it costs
//
// Each transaction writes its number; a transaction that puts keys also writes an entry of eight
// bytes a key. With guard.Exact, a commit looks up every key that it puts or deletes, if the filter
// says "maybe" to the key. A rebuild reads the store in one read transaction: as with every long read
// transaction, a commit that needs a larger map waits for its end, and new read transactions wait for
// that commit. bbolt.Options.InitialMmapSize avoids that. In the background the guard writes
// transactions of its own, which wait for the writable transaction that is open.
//
// # Not covered
//
// Bytes of the filter that change by themselves while it is open, or after its process has died: a
// closed filter has checksums, but a filter that is open for writing has none. Cursors and ForEach
// read the store as they are. A read-only store uses its filter only if the filter exists and is
// whole: none is built. The methods Rebuild, Work and Close of the guard wait for transactions,
// so a transaction must not call them.
package bboltguard
