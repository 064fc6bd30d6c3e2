// Run it with node test_mmapfilter.mjs. The module sends its requests to a server here, and each
// test can set what that server answers.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { after, beforeEach, test } from 'node:test'
import { FilterError, open } from './mmapfilter.mjs'

const DATA = new URL('../../../testdata/', import.meta.url)
const image = name => readFileSync(new URL(name + '.mmf', DATA))
const IMAGES = readdirSync(DATA).filter(n => n.endsWith('.mmf')).map(n => n.slice(0, -4))

function keysOf(name) { // [key, answer, why]
	return readFileSync(new URL(name + '.vectors', DATA), 'utf8').trim().split('\n').slice(1).map(line => {
		const columns = line.split('\t'), parts = columns[0].slice(1, -1).match(/\\x..|\\.|[^\\]+/gsu) ?? []
		const bytes = parts.map(p => p[0] !== '\\' ? Buffer.from(p) : p[1] === 'x' ? Buffer.from(p.slice(2), 'hex') : Buffer.from(p[1] === 'n' ? '\n' : p[1]))
		return [Buffer.concat(bytes), columns[6] === 'true', columns[7]]
	})
}

const KEYS = keysOf('compact-q41'), PRESENT = KEYS.find(([, answer]) => answer)[0], ABSENT = KEYS.find(([, , why]) => why === 'overflow bit not set')[0]

// ---- The server ----

let file, asked, reply // reply gets the answer as { status, headers, body }, and may change or replace it
const server = createServer((request, response) => {
	const [from, to] = request.headers.range.slice(6).split('-').map(Number), body = file.subarray(from, to + 1)
	asked.push(to + 1 - from)
	assert.equal(request.headers['if-range'], undefined)
	const answer = { status: 206, headers: { ETag: '"1"', 'Content-Range': `bytes ${from}-${from + body.length - 1}/${file.length}` }, body }
	reply?.(answer, response)
	if (answer.hang) return
	response.writeHead(answer.status, answer.headers)
	response.end(answer.body)
})
await new Promise(done => server.listen(0, '127.0.0.1', done))
const url = `http://127.0.0.1:${server.address().port}/x.mmf`
beforeEach(() => {
	file = image('compact-q41')
	asked = []
	reply = undefined
})
after(() => {
	server.close()
	server.closeAllConnections?.()
})

const failsAs = (code, more) => e => {
	assert(e instanceof FilterError, `${e}`)
	assert.equal(e.code, code)
	if (more) assert.equal(e.rule ?? e.status, more)
	return true
}

// ---- Tests ----

test('the vectors, from a URL, from a Blob, and from bytes', async () => {
	assert(IMAGES.length > 10)
	for (const name of IMAGES) {
		file = image(name)
		const vectors = keysOf(name), keys = vectors.map(([key]) => key), answers = vectors.map(([, answer]) => answer)
		for (const from of [url, new URL(url), new Blob([file]), file, new Uint8Array(file).buffer, new DataView(new Uint8Array(file).buffer)]) {
			const some = from === url || from instanceof URL ? 40 : keys.length
			const filter = await open(from)
			assert.deepEqual(await filter.containsAll(keys.slice(0, some)), answers.slice(0, some), name)
			assert.equal(await filter.contains(keys[0]), answers[0])
			if (name === 'compact-q41') assert.deepEqual([filter.length, filter.normalisation, filter.shards, filter.rate.toFixed(6)], [564, 'golden', 1, '0.009908'])
		}
	}
})

test('a lookup of an absent key is one request of 64 bytes', async () => {
	const filter = await open(url)
	assert.deepEqual(asked, [32768])
	asked = []
	for (const [key, answer] of KEYS) {
		const before = asked.length
		assert.equal(await filter.contains(key), answer)
		assert(asked.length - before <= 2)
	}
	assert(asked.every(n => n === 64))
	asked = []
	assert.equal(await filter.contains(ABSENT), false)
	assert.deepEqual(asked, [64])
})

test('keys', async () => {
	const filter = await open(file), bytes = new Uint8Array(Buffer.from('xkey 388x'))
	for (const key of ['key 388', Buffer.from('key 388'), bytes.subarray(1, 8), new DataView(bytes.buffer, 1, 7), bytes.slice(1, 8).buffer, ''])
		assert.equal(await filter.contains(key), true)
	for (const key of [5, null, undefined, ['key 388'], {}, 'half \ud800', '\udc00'])
		await assert.rejects(filter.contains(key), TypeError)
	assert.equal(await filter.contains('a pair \ud83d\ude00'), false)
	assert.deepEqual(await filter.containsAll([]), [])
	assert.deepEqual(await filter.containsAll(new Set(['key 388', 'key 388 ', 'key 27'])), [true, false, true])
})

test('errors of files', async () => {
	for (const name of ['live/halves', 'live/compact', 'live/kept']) {
		file = image(name)
		for (const from of [url, new Blob([file]), file]) await assert.rejects(open(from), failsAs('live'))
	}
	file = image('compact-q41')
	const newer = Buffer.from(file), cut = n => file.subarray(0, n)
	newer[8] = 2
	newer.writeUInt32LE(crc32c(newer.subarray(0, 4092)), 4092)
	newer.fill(0, 4096, 16384)
	for (const [bytes, code, rule] of [
		[Buffer.alloc(0), 'not-a-filter'], [Buffer.alloc(50000), 'not-a-filter'], [Buffer.from('MMAPFL'), 'not-a-filter'],
		[cut(100), 'corrupt', 'F1'], [cut(16383), 'corrupt', 'F1'], [cut(16384), 'corrupt', 'F6'], [cut(file.length - 4096), 'corrupt', 'F6'],
		[Buffer.alloc(40960, 'MMAPFLTR'), 'corrupt', 'F1'], [newer, 'version']
	]) {
		for (const from of [bytes, new Blob([bytes])]) await assert.rejects(open(from), failsAs(code, rule))
		if (bytes.length === 0) continue // a range of nothing is an error of HTTP
		file = bytes
		await assert.rejects(open(url), failsAs(code, rule))
		file = image('compact-q41')
	}
})

test('a line that breaks F10 says maybe', async () => {
	for (const [name, byte] of [['compact-q41', 0xFF], ['semisorted-f13', 0xFF]]) {
		const bad = image(name)
		bad.fill(byte, 32768, name === 'compact-q41' ? 32768 + 576 : 32768 + 696)
		const filter = await open(bad)
		for (const [key] of keysOf(name)) assert.equal(await filter.contains(key), true)
	}
	for (let at = 32768; at < 32768 + 576; at += 64) file[at] |= 1 // an item before the first quotient
	const filter = await open(file)
	for (const [key] of KEYS) assert.equal(await filter.contains(key), true)
})

test('a file that says that it is superseded says maybe', async () => {
	for (const name of ['compact-q41', 'packed-f12', 'compact-shard']) {
		file = image(name)
		file.fill(0xFF, 16384, 16392) // the epoch
		for (const from of [url, new Blob([file]), file])
			for (const [key] of keysOf(name).filter(([, answer]) => !answer).slice(0, 20)) assert.equal(await (await open(from)).contains(key), true)
	}
})

test('answers that are no answers', async () => {
	const lies = {
		'the whole file': [a => { Object.assign(a, { status: 200, body: file }) }, 'http', 200],
		'not there': [a => { a.status = 404 }, 'http', 404],
		'an error': [a => { a.status = 503 }, 'http', 503],
		'no Content-Range': [a => { delete a.headers['Content-Range'] }, 'http', 206],
		'another range': [a => { a.headers['Content-Range'] = a.headers['Content-Range'].replace(/bytes (\d+)/, (_, n) => `bytes ${+n + 64}`) }, 'http', 206],
		'no size': [a => { a.headers['Content-Range'] = a.headers['Content-Range'].replace(/\/.*/, '/*') }, 'http', 206],
		'fewer bytes': [a => { a.body = a.body.subarray(1) }, 'http'],
		'more bytes': [a => { a.body = Buffer.concat([a.body, a.body]) }, 'network'],
		'a broken connection': [(a, response) => { a.hang = true; response.socket.destroy() }, 'network'],
		'half an answer': [(a, response) => {
			a.hang = true
			response.writeHead(206, { ...a.headers, 'Content-Length': 1e6 })
			response.write(a.body, () => response.socket?.destroy())
		}, 'network']
	}
	for (const [what, [lie, code, more]] of Object.entries(lies)) {
		reply = lie
		await assert.rejects(open(url), failsAs(code, more), what)
		reply = undefined
		const filter = await open(url)
		reply = lie
		await assert.rejects(filter.contains(ABSENT), failsAs(code, more), what)
		await assert.rejects(filter.containsAll([PRESENT, ABSENT]), failsAs(code, more), what)
		reply = undefined
		assert.deepEqual(await filter.containsAll([PRESENT, ABSENT]), [true, false]) // it goes on
	}
	await assert.rejects(open('http://127.0.0.1:1/'), failsAs('network'))
	await assert.rejects(open('nonsense'), failsAs('network'))
	await assert.rejects(open(url, { fetch: () => { throw undefined } }), failsAs('network'))
})

test('a file that is replaced is found out', async () => {
	const other = image('compact-q41')
	for (let at = 0; at < 16384; at += 4096) { // the same size, but without the keys of the first
		other[at + 50]++
		other.writeUInt32LE(crc32c(other.subarray(at, at + 4092)), at + 4092)
	}
	other.fill(0, 32768, 32768 + 576)
	const start = Date.now(), time = ms => new Date(start + ms).toUTCString()
	let version = 1
	for (const [what, headers, requests] of [
		['a strong tag', () => ({ ETag: `"${version}"` }), 1],
		['an old time', () => ({ ETag: undefined, 'Last-Modified': time(-86400000 + 1000 * version) }), 2],
		['an old time that stays', () => ({ ETag: undefined, 'Last-Modified': time(-86400000) }), 2],
		['a weak tag and an old time', () => ({ ETag: `W/"${version}"`, 'Last-Modified': time(-86400000) }), 2],
		['nothing', () => ({ ETag: undefined }), 2],
		['a time to come', () => ({ ETag: undefined, 'Last-Modified': time(3600000) }), 2],
		['a weak tag that stays', () => ({ ETag: 'W/"1"' }), 2]
	]) {
		version = 1
		file = image('compact-q41')
		reply = a => {
			Object.assign(a.headers, headers())
			for (const name in a.headers) if (a.headers[name] === undefined) delete a.headers[name]
		}
		const filter = await open(url)
		asked = []
		assert.equal(await filter.contains(ABSENT), false)
		assert.equal(asked.length, requests, what)
		file = other
		version = 2
		const answers = await Promise.allSettled(KEYS.filter(([, answer]) => answer).slice(0, 50).map(([key]) => filter.contains(key)))
		for (const { status, value, reason } of answers) assert(status === 'fulfilled' ? value : reason.code === 'replaced', what)
		await assert.rejects(filter.contains(ABSENT), failsAs('replaced'), what)
	}
})

test('nothing hangs', async () => {
	for (const how of ['no answer', 'no body', 'half a body', 'a fetch that ignores its signal', 'a body that ignores it']) {
		const stop = new AbortController(), filter = how.includes('ignores') ? undefined : await open(url, { signal: stop.signal })
		reply = (a, response) => {
			a.hang = true
			if (how === 'no answer') return
			response.writeHead(206, a.headers)
			response.write(how === 'no body' ? '' : a.body.subarray(1))
			response.flushHeaders()
		}
		const fetch = how === 'a fetch that ignores its signal' ? () => new Promise(() => {}) :
			async () => new Response(new ReadableStream({}), { status: 206, headers: { 'Content-Range': `bytes 0-32767/${file.length}`, ETag: '"1"' } })
		const lookup = filter ? filter.contains(ABSENT) : open(url, { fetch, signal: stop.signal })
		setTimeout(() => stop.abort(new Error('enough')), 50)
		await assert.rejects(lookup, { message: 'enough' })
		if (filter) await assert.rejects(filter.contains(ABSENT), { message: 'enough' })
		await assert.rejects(open(url, { signal: stop.signal }), { message: 'enough' })
		reply = undefined
	}
	const filter = await open(url)
	reply = a => { a.hang = true }
	const lookup = filter.contains(ABSENT)
	filter.close()
	filter.close()
	await assert.rejects(lookup, failsAs('closed'))
	await assert.rejects(filter.containsAll([PRESENT]), failsAs('closed'))
	const here = await open(file)
	here.close()
	await assert.rejects(here.contains(PRESENT), failsAs('closed'))
})

test('a request ends by itself', async t => {
	const filter = await open(url), real = globalThis.setTimeout
	reply = a => { a.hang = true }
	globalThis.setTimeout = (f, ms, ...more) => real(f, ms === 10000 ? 20 : ms, ...more)
	t.after?.(() => { globalThis.setTimeout = real })
	await assert.rejects(filter.contains(ABSENT), failsAs('timeout'))
	globalThis.setTimeout = real
})

function crc32c(bytes) {
	let crc = -1
	for (const b of bytes) {
		crc ^= b
		for (let i = 0; i < 8; i++) crc = crc >>> 1 ^ (crc & 1 && 0x82F63B78)
	}
	return ~crc >>> 0
}
