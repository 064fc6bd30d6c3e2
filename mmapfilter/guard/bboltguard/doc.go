// Package bboltguard is bbolt behind a filter: reads of absent keys do not reach the B+tree.
//
// A program changes its import and its call of Open, which also takes the options of the guard. For
// names that are not here, such as Options and ErrBucketNotFound, it also imports bbolt itself.
// README.md shows a program before and after. Package guard says what the filter promises, and how it
// keeps these promises.
//
// [DB], [Tx], [Bucket] and [Cursor] have the methods of their namesakes in bbolt. [Bucket.Get] and
// [Bucket.Has] ask the filter first, in read transactions and in writable ones.
//
// # Keys
//
// For each key of the store, the filter has one key, which begins with the names of the buckets, so
// that equal keys in different buckets differ. guard.Options.Covers gets such keys; [SplitKey] splits
// them, and [JoinKey] joins them. Buckets themselves are not in the filter: [Bucket.Bucket] asks the
// store.
//
// # What the guard does
//
// A writable transaction collects its keys. Just before its commit, they are put into the filter and,
// in the same transaction, into a bucket of the guard. So a key is in the filter before anyone can see
// it in the store, and a key that is rolled back was never in the filter. A key leaves the filter once
// its delete is durable (guard.Exact, the default), or when the filter is rebuilt (guard.Rebuild).
//
//	operation                                     what the guard does
//	Bucket.Put                                    puts the key
//	Bucket.Delete, Cursor.Delete                  deletes the key
//	DB.Update, DB.Begin, Tx.Commit                puts what the transaction has put, right before its commit
//	Tx.Rollback, an error or panic in Update      nothing
//	Tx.Commit that fails                          soon deletes the keys again, unless it has happened nevertheless
//	DB.Batch                                      as Update; if bbolt runs a function again, only one run counts
//	Bucket.Get, Has in a writable transaction     asks the store for keys that the transaction itself has put
//	Bucket.Get, Has in a read transaction         asks the store if keys have left the filter since it began
//	CreateBucket, CreateBucketIfNotExists         nothing: a new bucket has no keys
//	DeleteBucket                                  reads the keys of the bucket and of buckets in it, and deletes them
//	MoveBucket                                    reads these keys, deletes them, and puts them with their new path
//	MoveBucket of a bucket into itself            ErrNotFollowed
//	Put, Delete in a stale bucket object          ErrNotFollowed: bbolt may lose the write, or not
//	Bucket.SetRootPage                            ErrNotFollowed
//	NextSequence, SetSequence, FillPercent        nothing: they are not keys
//	Cursor, ForEach, Inspect                      nothing; in the root, they hide the reserved buckets
//	any write to a reserved bucket                ErrReserved
//	Compact, Tx.WriteTo, Tx.CopyFile              nothing: the copy has no filter, and gets one when it is opened
//	writes by another program                     Open rebuilds the filter
//	writes through DB.DB                          the next Open rebuilds it; before that, call guard.Guard.Rebuild
//
// With guard.Exact, a transaction remembers the keys of deleted buckets only up to a limit. The rest
// stay in the filter until it is rebuilt.
//
// # Reserved buckets
//
// guard.Options.Prefix is the name of a bucket in the root that has the entries of the guard: which
// filter belongs to the store, and the keys that the filter may not have durably yet. The program does
// not see this bucket, but other programs that open the file do, and so does bbolt.Compact. The same
// is true of the bucket guard.OwnerName, which is small, and which all guards share, whatever their
// Prefix.
//
// # Crashes
//
// No commit waits for another sync. The keys that the filter lacks after a crash are in the reserved
// bucket; package guard says when the filter is rebuilt instead. With bbolt.Options.NoSync a power
// loss may damage the store itself; if the store is undamaged, the filter has its keys.
//
// # A step back
//
// bbolt numbers the writable transactions. Each transaction of a guard puts its number into the bucket
// guard.OwnerName if the bucket has the number of the previous transaction, or if a filter is being
// built that has all keys from before. If the bucket does not have the number of the last transaction
// when the store is opened, a program without this package has written to the store, and Open rebuilds
// the filter. bbolt itself can have the same effect: Compact gives the copy other numbers, and
// bbolt.Open makes a transaction if the store was written with bbolt.Options.NoFreelistSync and is
// opened without it. If a program without this package writes to the store and then compacts it, the
// copy may by chance have the number in the bucket: remove the filter.
//
// # What it costs
//
// Each transaction writes its number; a transaction that puts keys also writes an entry of eight bytes
// a key. With guard.Exact, a commit looks up every key that it puts or deletes and for which the
// filter says "maybe". A rebuild reads the store in one read transaction. As with every long read
// transaction, a commit that needs a larger map waits until it ends, and new read transactions wait
// for that commit. bbolt.Options.InitialMmapSize avoids that. In the background, once an interval while
// keys are put or deleted, the guard writes a transaction of its own. It waits for a writable
// transaction that is open. It never waits for a read transaction: if it might need a larger map,
// the guard puts it off while one is open, and one that begins meanwhile waits for its commit. The
// commits at the end of a rebuild, however, wait like those of a program if they need a larger map.
//
// # Not covered
//
// Damage to the bytes of a filter that is open, or whose process has died, is not noticed: a closed
// filter has checksums, but a filter that is open for writing has none. Cursors and ForEach read the
// store as in bbolt. A read-only store uses its filter only if the filter exists and has all keys; it
// builds none. The methods Rebuild, Work, Doubt, Bypass and Close of the guard wait for transactions, so
// a transaction must not call them.
package bboltguard
