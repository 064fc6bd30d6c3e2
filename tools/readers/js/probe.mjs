// probe.mjs is the program through which the tests of package readers ask mmapfilter.mjs: what c/probe.c is for
// mmapfilter.h, with the same commands. A record is 4 bytes of length, and a key.
import { readFileSync, writeFileSync } from 'node:fs'
import { FilterError, open, xxh3 } from './mmapfilter.mjs'

const SUPERBLOCK = 4096, HEADS = 16384

function* records(bytes, fixed = 0) { // each after so many bytes of another kind
	for (let at = 0; at < bytes.length;) {
		const before = bytes.subarray(at, at + fixed), length = bytes.readUInt32LE(at + fixed)
		at += fixed + 4
		yield [before, bytes.subarray(at, at + length)]
		at += length
	}
}

// ranges serves bytes to one reader.
const ranges = bytes => async (_, { headers }) => {
	if (!/^bytes=\d+-\d+$/.test(headers.Range)) throw new Error(headers.Range)
	const [from, to] = headers.Range.slice(6).split('-').map(Number), part = bytes.subarray(from, to + 1)
	return new Response(part, { status: 206, headers: { ETag: '"1"', 'Content-Range': `bytes ${from}-${from + part.length - 1}/${bytes.length}` } })
}

// answers FILTER HOW: a byte, 0 or 1, for each record. Each HOW of probe.c stands for a source or a call here.
async function answers(path, how) {
	const bytes = readFileSync(path), keys = [...records(readFileSync(0))].map(([, key]) => key)
	const filter = await {
		single: () => open(bytes), batch: () => open(new Uint8Array(bytes).buffer), hash: () => open(new Blob([bytes])),
		fixed: () => open('x:', { fetch: ranges(bytes) }), hashes: () => open('x:', { fetch: ranges(bytes) })
	}[how]()
	let found = []
	if (how === 'batch' || how === 'hashes') found = await filter.containsAll(keys)
	else for (const key of keys) found.push(await filter.contains(key))
	return Uint8Array.from(found)
}

// hash: for each seed of 8 bytes and record, 8 bytes of hash.
function hash() {
	return new BigUint64Array(Array.from(records(readFileSync(0), 8), ([seed, key]) => xxh3(key, seed.readBigUInt64LE())))
}

const CODES = { F1: 6, F2: 7, F3: 8, F4: 10, F5: 11, F6: 12, F7: 14, F13: 15 } // minus those of mmapfilter.h

// attempt opens an image, and looks keys up in it. It returns minus the code of mmf_open. A live file has no damage.
async function attempt(image) {
	try {
		const filter = await open(image)
		for (let i = 0; i < 30; i++) await filter.contains('key ' + i)
		return 0
	} catch (e) {
		if (!(e instanceof FilterError)) throw e
		return e.code === 'live' ? 0 : e.code === 'not-a-filter' ? 4 : e.code === 'version' ? image[8] > 1 || image.readUInt32LE(8) > 1 ? 8 : 9 : CODES[e.rule]
	}
}

function crc32c(bytes) {
	let crc = -1
	for (const b of bytes) {
		crc ^= b
		for (let i = 0; i < 8; i++) crc = crc >>> 1 ^ (crc & 1 && 0x82F63B78)
	}
	return ~crc >>> 0
}

// fields FILE COPY FROM TO: for every bit of those bytes of the superblock, with a right checksum and no other copy, a
// byte: minus the code of mmf_open.
async function fields(path, _, from, to) {
	const image = readFileSync(path), first = Buffer.from(image.subarray(0, SUPERBLOCK)), codes = []
	image.fill(0, 0, HEADS)
	for (let bit = 8 * from; bit < 8 * to; bit++) {
		first.copy(image)
		image[bit >> 3] ^= 1 << bit % 8
		image.writeUInt32LE(crc32c(image.subarray(0, SUPERBLOCK - 4)), SUPERBLOCK - 4)
		codes.push(await attempt(image))
	}
	return Uint8Array.from(codes)
}

// damage FILE COPY N SEED: bits of the first superblock, cuts at every 512 bytes, and n files with 1 to 256 random bytes
// anywhere. It prints how many of each were opened.
async function damage(path, _, n, seed) {
	const image = readFileSync(path), opened = [0, 0, 0]
	const random = below => { // xorshift
		seed ^= seed << 13
		seed ^= seed >>> 17
		seed ^= seed << 5
		return (seed >>> 0) % below
	}
	for (let bit = 0; bit < 8 * SUPERBLOCK; bit += 31) {
		image[bit >> 3] ^= 1 << bit % 8
		opened[0] += await attempt(image) === 0
		image[bit >> 3] ^= 1 << bit % 8
	}
	for (let size = image.length - 512; size >= 0; size -= 512) opened[1] += await attempt(image.subarray(0, size)) === 0
	for (let i = 0; i < n; i++) {
		const bad = Buffer.from(image), low = random(2) ? HEADS : 0
		for (let k = random(256); k >= 0; k--) bad[low + random(bad.length - low)] = random(256)
		opened[2] += await attempt(bad) === 0
	}
	return opened.join(' ') + '\n'
}

const [command, ...args] = process.argv.slice(2)
const out = await { answers, hash, fields, damage }[command](...args.map(a => /^\d+$/.test(a) ? Number(a) : a))
writeFileSync(1, typeof out === 'string' ? out : new Uint8Array(out.buffer))
