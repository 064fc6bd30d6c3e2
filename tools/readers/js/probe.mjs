// probe.mjs is the program through which the tests of package readers call mmapfilter.mjs. It has
// the commands of c/probe.c. A record is 4 bytes of length, and a key.
import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { FilterError, open, xxh3 } from './mmapfilter.mjs'

function* records(bytes, fixed = 0) { // each record follows this many other bytes
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

// hash: reads a seed of 8 bytes and a record, again and again; writes 8 bytes of hash for each.
function hash() {
	return new BigUint64Array(Array.from(records(readFileSync(0), 8), ([seed, key]) => xxh3(key, seed.readBigUInt64LE())))
}

const CODES = { F1: -6, F2: -7, F3: -8, F4: -10, F5: -11, F6: -12, F7: -14, F13: -15 } // the codes of mmapfilter.h

// attempt opens an image, and looks keys up in it. It returns the code of mmf_open. A live file has no damage.
async function attempt(image) {
	try {
		const filter = await open(image)
		for (let i = 0; i < 30; i++) await filter.contains('key ' + i)
		return 0
	} catch (e) {
		if (!(e instanceof FilterError)) throw e
		return e.code === 'live' ? 0 : e.code === 'not-a-filter' ? -4 : e.code === 'version' ? image[8] > 1 || image.readUInt32LE(8) > 1 ? -8 : -9 : CODES[e.rule]
	}
}

// opens: reads a path a line. For each it looks keys up, and prints a line with the code of
// mmf_open.
async function opens() {
	for await (const path of createInterface({ input: process.stdin })) writeFileSync(1, await attempt(readFileSync(path)) + '\n')
	return ''
}

const [command, ...args] = process.argv.slice(2)
const out = await { answers, hash, opens }[command](...args)
writeFileSync(1, new Uint8Array(out.buffer ?? 0))
