// Package osfile implements recovery.Volume with the files of the operating system: the files of a
// filter, their mappings, locks and names. It also creates new files, which appear under their
// names complete, and reads what is left of damaged files.
//
// # A new file
//
// A new filter file appears under its name complete or not at all ([Draft]):
//
//	                     NewDraft                     Publish
//	no file, or an old ────────────▶ old file locked, ────────▶ new file under
//	one, under NAME                  temporary file             NAME, durable
//	      ▲                          of full size                    │
//	      └──────────── Discard ─────────────┘                lock released
//
//	1. Take the writer lock of the old file of that name, so that no writer commits to a file that
//	   loses its name. If the writer of the old file died, recover the file, since readers use it
//	   until step 5. If a file appears under the name later, lock it before step 5. (Windows neither
//	   renames nor replaces an open file; there the locks end just before step 5, which fails with
//	   ErrInUse while a process has the old file open or mapped.) A guarded draft (Draft.Guard)
//	   refuses a file under NAME that is neither a filter nor empty, and a log or hashes beside it
//	   that belong to another filter. It checks this now, and again before step 5.
//	2. Create a temporary file in the same directory and allocate all its blocks, so that a full disk
//	   is an error here and not a fault in the middle of a store. The process keeps a lock on the
//	   file; every draft removes temporary files without a lock. The file gets the owner, group and
//	   permissions of the old file, as far as the system allows.
//	3. Write its content, through a shared mapping.
//	4. msync, then fsync: content and size are durable.
//	5. Rename it to NAME, which is atomic both for readers and in a crash. Before the rename, the
//	   hashes of the new file get the name NAME.hashes.new. If the new file keeps no hashes, the
//	   hashes of the old file get this name, since the old file can use its hashes under either name
//	   (K3). After the rename, NAME.hashes.new is renamed to NAME.hashes, or removed if it has the
//	   hashes of the old file. So NAME.hashes belongs to the filter under NAME; or, after a kill in
//	   between, NAME.hashes.new does.
//	6. fsync the directory: the name is durable.
//	7. Tell the readers of the old file (K4).
//
// A file that exists already, under another name on the same file system, becomes a draft by
// [DraftFrom]. Then steps 2 and 3 are left out, and step 1 locks this file too. Before step 4 it
// gets the owner, group and permissions of the old file. Between steps 4 and 5 its hashes get a
// second name, NAME.hashes.new, and after step 6 their first name is removed. So a crash before
// step 5 leaves the new file under its first name, with its hashes.
//
//	what happened                              NAME afterwards
//	an error or a cancelled context, 1 to 5    the old file, or none; the temporary file is gone
//	kill -9 or power loss before 5             the old file, or none; a temporary file NAME.tmp-*
//	                                           may be left, which the next draft removes
//	kill -9 after 5                            the new file, complete
//	power loss between 5 and 6                 the old file (or none) or the new one, complete
//	power loss after 6                         the new file, complete
//
// # Platforms
//
//	            files are    lock             allocation   sync of the log   sync of a name   tested
//	Linux       written      OFD lock of      fallocate,   fdatasync         fsync of the     yes
//	                         two parts        checked                        directory
//	macOS       written      flock            zero bytes   F_FULLFSYNC       likewise         compiled
//	FreeBSD,    written      flock            zero bytes   msync, fsync      likewise         compiled
//	NetBSD
//	Windows     read, and    LockFileEx       zero bytes   none              none             reading and
//	            built                                                                         building, in Wine
//	OpenBSD     likewise     flock            zero bytes   none              as Linux         compiled
//	js, wasip1, read, not    as above; none                                                  reading
//	32 bits     mapped       in js, wasip1
//
// The tests that run in Wine are those of layouts, those of the protocol on simulated devices, and
// those of package mmapfilter that read, build, install and follow files. Tests that need a
// symbolic link, an open file without a name, or a file that is cut short while it is mapped do not
// run there. Nothing has been run on Windows itself.
//
// Reading clean and sealed files works wherever the module compiles, which is on little-endian
// machines. Building a file, and any other writing, needs 64 bits and mappings (see [Maps]);
// WebAssembly has no mappings. Where these are missing, writing fails with errors.ErrUnsupported.
// Opening a file for writing also fails with errors.ErrUnsupported on Windows, which cannot rename
// a mapped file, and on OpenBSD, where a mapping and the call read may disagree. The promises about
// power loss hold on Linux; elsewhere they hold only if the calls in the table do what they promise. On
// systems other than Linux, holes in a copied file stay, so a store to a hole on a full disk ends
// the process. The lock has only one part on these systems, so a reader may be served after a
// process has taken the lock to recover the file, and before the recovery begins.
//
// # Faults
//
// A fault in a mapping, because the file was cut short or its disk failed, would end the process.
// [Catch] turns it into an error.
package osfile
