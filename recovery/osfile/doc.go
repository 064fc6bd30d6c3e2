// Package osfile is the recovery.Volume of the operating system: the files of a filter, their
// mappings, locks and names. It also makes new files, which appear under their names whole, and reads
// what is left of damaged ones.
//
// # A new file
//
// A filter file appears under its name whole or not at all ([Draft]):
//
//	                     NewDraft                     Publish
//	no file, or an old ────────────▶ old file locked, ────────▶ new file under
//	one, under NAME                  temporary file             NAME, durable
//	      ▲                          of full size                    │
//	      └──────────── Discard ─────────────┘                lock released
//
//	1. Take the writer lock of the old file of that name, so that no writer commits to
//	   a file that loses its name. If its writer died, recover it: readers use the old file
//	   until step 5. If a file appears under the name later, lock it before step 5. (Windows
//	   neither renames nor replaces an open file; there the locks end just before 5, and 5 fails
//	   with ErrInUse while a process has the old file open or mapped.) A guarded draft
//	   (Draft.Guard) refuses a file under NAME that is neither a filter nor empty, and a log or
//	   hashes beside it that belong to another filter. It checks this now, and again before step
//	   5.
//	2. Create a temporary file in the same directory and allocate all its blocks, so that
//	   a full disk is an error here and not a fault in the middle of a store. The file is
//	   locked while its process lives; temporary files without a lock are removed. It gets
//	   the owner, group and permissions of the old file, as far as the system allows.
//	3. Write its content, through a shared mapping.
//	4. msync, then fsync: content and size are durable.
//	5. Rename it over NAME: atomic, for readers and for a crash. Before the rename, the
//	   hashes of the new file get the name NAME.hashes.new. If the new file keeps no hashes,
//	   the hashes of the old file get this name: the old file can use its hashes under
//	   either name (K3). After the rename, NAME.hashes.new is renamed to NAME.hashes, or
//	   removed if the hashes are the old ones. So NAME.hashes belongs to the filter under
//	   NAME; or, after a kill in between, NAME.hashes.new does.
//	6. fsync the directory: the name is durable.
//	7. Tell the readers of the old file (K4).
//
// For a file that exists already, under another name on the same file system ([DraftFrom]), steps 2
// and 3 are left out, and step 1 locks this file too. Before step 4 it gets the owner, group and
// permissions of the old file. Between 4 and 5 its hashes get a second name, NAME.hashes.new. After
// 6 their first name is removed. So a crash before 5 leaves the new file under its first name, with
// its hashes.
//
//	what happened                              what is under NAME afterwards
//	an error or a cancelled context, 1 to 5    what was there before; the temporary file is gone
//	kill -9 or power loss before 5             what was there before; a file NAME.tmp-* may be
//	                                           left, which the next draft removes
//	kill -9 after 5                            the new file, whole
//	power loss between 5 and 6                 the old file or the new one, either whole
//	power loss after 6                         the new file, whole
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
// In Wine, the tests of layouts, of the protocol on simulated devices, and those of package
// mmapfilter that read, build, install and follow files are run. Nothing has been run on Windows
// itself. What needs a symbolic link, an open file without a name, or a file that is cut short while
// it is mapped is left out.
//
// Reading clean and sealed files works wherever the module compiles: on little-endian machines.
// Building a file, and any other writing, needs 64 bits and mappings, which WebAssembly does not have
// (see [Maps]): elsewhere it fails with errors.ErrUnsupported. Opening a file for writing fails with
// errors.ErrUnsupported on Windows, which cannot rename a mapped file, and on OpenBSD, where a mapping
// and read may disagree. The promises about power loss hold on Linux; elsewhere they hold only if the
// calls in the table do what they promise. On systems other than Linux, holes in a copied file stay,
// so a store to a hole on a full disk ends the process. The lock has only one part on these systems,
// so a reader may be served after a process has taken the lock to recover the file, and before the
// recovery begins.
//
// # Faults
//
// [Catch] turns a fault in a mapping, which would end the process, into an error: the file was cut
// short, or its disk failed.
package osfile
