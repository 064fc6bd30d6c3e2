// Reads filter files: see mmapfilter.d.ts, and "go doc ./layout".

const HEADS = 16384, STASH = 20480, REGION = 32768
const LATE = 10000 // milliseconds after which a request fails

export class FilterError extends Error {
	constructor(code, text, more) {
		super(text)
		Object.assign(this, { code }, more)
	}
}

const fail = (...what) => { throw new FilterError(...what) }
const must = (ok, rule) => ok || fail('corrupt', 'it breaks rule ' + rule, { rule })
const times = (n, f) => Array.from({ length: n }, (_, i) => f(i))
const viewOf = bytes => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
const u32 = (view, at) => view.getUint32(at, true), u64 = (view, at) => view.getBigUint64(at, true)

// ---- XXH3 ----

const MASK = (1n << 64n) - 1n, LOW = 0xFFFFFFFFn
const P1 = 0x9E3779B185EBCA87n, P2 = 0xC2B2AE3D27D4EB4Fn, P3 = 0x165667B19E3779F9n, P4 = 0x9E3779B1n
const SECRET = viewOf(Uint8Array.from(atob('uP5sOSOkS758AYEs9yGtHN7UbemDkJfbckCkpLezZx/LeeZOzMDleIJa0H3M/3IhuAhGdPdDJI7gNZDmgTomTDwoUruRwwDLiNBlixtTLqNxZEiXog35TjgZ70ap3qzYqPp2P+OcND/53LvHxwtPHYpR4EvNtFkxyJ9+ydl4c2TqxayDNNPrw8WBoP/6E2PrFw3dUbfw2knTFlUmKdRonisWvlh9R6H8j/i40XrQMc5FyzqPlRYEKK/X+8q7S0B+'), c => c.charCodeAt(0)))
const s = at => u64(SECRET, at)
const own = new DataView(new ArrayBuffer(200))

function swap(x) { // reverses the order of its bytes
	own.setBigUint64(192, x)
	return u64(own, 192)
}

const mix = (h, shift, factor = 1n) => (h ^ h >> shift) * factor & MASK
const fold = (a, b) => mix((a & MASK) * (b & MASK), 64n)
const avalanche = h => mix(mix(h & MASK, 37n, 0x165667919E3779F9n), 32n)

export function xxh3(key, seed) {
	const n = key.length, size = BigInt(n), view = viewOf(key), w = at => u64(view, at)
	const both = (at, k) => fold(w(at) ^ s(k) + seed, w(at + 8) ^ s(k + 8) - seed)
	let h = size * P1
	if (n > 240) return xxh3Long(w, n, seed)
	if (n > 128) {
		for (let i = 0; i < 128; i += 16) h += both(i, i)
		h = avalanche(h)
		for (let i = 128; i <= n - 16; i += 16) h += both(i, i - 125)
		return avalanche(h + both(n - 16, 119))
	}
	if (n > 16) {
		for (let i = 0; 32 * i < n; i++) h += both(16 * i, 32 * i) + both(n - 16 * i - 16, 32 * i + 16)
		return avalanche(h)
	}
	if (n > 8) {
		const low = w(0) ^ (s(24) ^ s(32)) + seed & MASK, high = w(n - 8) ^ (s(40) ^ s(48)) - seed & MASK
		return avalanche(size + swap(low) + high + fold(low, high))
	}
	if (n > 3) {
		const prime = 0x9FB21C651E98DF25n
		h = BigInt(u32(view, 0)) << 32n | BigInt(u32(view, n - 4))
		h ^= (s(8) ^ s(16)) - (seed ^ swap(seed & LOW)) & MASK
		h = (h ^ h << 49n ^ h >> 15n ^ h << 24n ^ h >> 40n) * prime & MASK
		return mix((h ^ (h >> 35n) + size) * prime & MASK, 28n)
	}
	h = seed ^ s(56) ^ s(64)
	if (n > 0) h = BigInt((key[0] << 16 | key[n >> 1] << 24 | key[n - 1] | n << 8) >>> 0) ^ (s(0) >> 32n ^ s(0) & LOW) + seed
	return mix(mix(mix(h & MASK, 33n, P2), 29n, P3), 32n)
}

function xxh3Long(w, n, seed) {
	const acc = BigUint64Array.of(P2 >> 32n, P1, P2, P3, 0x85EBCA77C2B2AE63n, 0x85EBCA77n, 0x27D4EB2F165667C5n, P4)
	for (let i = 0; i < 192; i += 8) own.setBigUint64(i, s(i) + (i & 8 ? -seed : seed), true)
	const stripe = (at, k) => acc.forEach((_, i) => {
		const value = w(at + 8 * i), key = value ^ u64(own, k + 8 * i)
		acc[i ^ 1] += value
		acc[i] += (key & LOW) * (key >> 32n)
	})
	for (let at = 0; at + 64 < n; at += 64) {
		stripe(at, at % 1024 / 8)
		if (at % 1024 === 960) acc.forEach((a, i) => acc[i] = (a ^ a >> 47n ^ u64(own, 128 + 8 * i)) * P4)
	}
	stripe(n - 64, 121)
	let h = BigInt(n) * P1
	for (let i = 0; i < 8; i += 2) h += fold(acc[i] ^ u64(own, 11 + 8 * i), acc[i + 1] ^ u64(own, 19 + 8 * i))
	return avalanche(h)
}

// ---- The superblock ----

function intact(copy) { // checks its CRC32C
	let crc = -1
	for (let at = 0; at < 4092; at++) {
		crc ^= copy.getUint8(at)
		for (let i = 0; i < 8; i++) crc = crc >>> 1 ^ (crc & 1 && 0x82F63B78)
	}
	return ~crc >>> 0 === u32(copy, 4092)
}

const log2 = n => n > 1 ? (n - 1).toString(2).length : 0 // rounded up
const roundUp = (n, unit) => Math.ceil(n / unit) * unit

// superblock checks the copy that counts, and returns what lookups need.
function superblock(head, total) {
	const copies = times(4, i => new DataView(head.buffer, 4096 * i, 4096)).filter(c => u64(c, 0) === 0x52544C4650414D4Dn)
	if (!copies.length) fail('not-a-filter', 'no filter')
	const s = copies.filter(intact).sort((a, b) => Number(u64(b, 16) - u64(a, 16)))[0]
	must(s && total >= HEADS, 'F1')
	const bytes = head.subarray(s.byteOffset), zero = (from, to) => bytes.subarray(from, to).every(b => !b)
	const compat = u64(s, 24), replica = u64(s, 32) & 2n, follows = compat & 4n, part = u64(s, 40), shard = u32(s, 200), shards = part ? u32(s, 204) : 1, seed = u64(s, 72)
	if (u32(s, 8) > 1 || part > 1n) fail('version', 'needs a newer reader')
	must(u32(s, 8), 'F3')
	must(u64(s, 16), 'F2')
	must(compat > 7n || zero(12, 16) && zero(69, 72) && zero(528, 536) && zero(592, 4092), 'F4')
	must(follows === (u64(s, 32) & 4n) && (follows ? compat & 1n : zero(560, 592)), 'F4')
	must((compat & 1n ? !replica : zero(176, 200) && zero(replica ? 240 : 216, 256) && zero(512, 528) && zero(536, 552)) && (replica || zero(552, 560)) && (part ? shard < shards : zero(200, 216)), 'F4')
	const [state, kind, x, y, hash] = bytes.subarray(64), g = log2(x)
	must(hash === 1 && u64(s, 80) === xxh3(new TextEncoder().encode('mmapfilter canary'), seed), 'F5')
	must(state > 0 && state < 4, 'F7')
	const [layout, known, f, b, values, size] = {
		3: ['packed', x > 3 && x < 33 && 8 % y === 0, x, y, 2 ** x, x * y],
		4: ['semisorted', x > 4 && x < 33 && y === 4, x, 4, 2 ** x, 4 * x - 4],
		7: ['compact', x > 15 && x < 65 && y > 3 && y < 27 && x * 2 ** y <= 2 ** 31, g + y, Math.floor((491 - x - g) / (y + 1)), x * 2 ** y, 512]
	}[kind] ?? []
	const n = Number(u64(s, 88)), region = roundUp(n * size / 8, 64), end = roundUp(REGION + region, 4096)
	const rate = s.getFloat64(112, true), load = s.getFloat64(120, true), length = Number(u64(s, 128))
	must(known && n && n * size <= 2 ** 48 && log2(shards) + log2(n) + log2(values) + (kind > 4) <= 62 && u64(s, 96) === BigInt(region) &&
		rate > 0 && rate < 1 && load > 0 && load <= 1 && u64(s, 104) <= n * b, 'F6')
	must(state < 3 || length <= n * b + 768 * 0xFFFFFFFF, 'F13')
	must(total === roundUp(roundUp(end + 4 * Math.ceil((end - HEADS) / 65536), 64) + 64, 4096) || total === end && state < 3, 'F6')
	if (state === 2) fail('live', 'a writer has the file open, or died')
	const [normalisation] = new TextDecoder().decode(bytes.subarray(256, 512)).split('\0')
	return { layout, q: x, r: y, f, b, n, values, size, seed, shard, shards, length, rate, normalisation }
}

// ---- Lines ----

function bits(bytes, at, n) { // n <= 32
	let v = 0
	for (let i = at + n - 1 >> 3; i >= at >> 3; i--) v = v * 256 + bytes[i]
	return Math.floor(v / (1 << (at & 7))) % 2 ** n
}

const NIBBLES = [] // the nibbles of each number
for (let s = 0; s < 16; s++) for (let r = 0; r <= s; r++) for (let q = 0; q <= r; q++) for (let p = 0; p <= q; p++) NIBBLES.push([p, q, r, s])

// decode returns the fingerprints of the line at a bit (in compact at home, or of guests), or
// nothing if the line breaks F10.
const decode = {
	packed: ({ f, b }, line, at) => times(b, i => bits(line, at + f * i, f)),
	semisorted: ({ f }, line, at) => NIBBLES[bits(line, at, 12)]?.map((nibble, i) => nibble * 2 ** (f - 4) + bits(line, at + 12 + (f - 4) * i, f - 4)),
	compact({ q, r, f, b }, line, _, guests) {
		if (guests) return times(bits(line, 492, 4), i => bits(line, 492 - f * (i + 1), f))
		const home = []
		for (let at = 0, quotient = -1; quotient < q; at++) {
			if (!(line[at >> 3] >> (at & 7) & 1)) quotient++
			else if (quotient < 0 || home.length === b) return
			else home.push(quotient * 2 ** r + bits(line, 1 + q + b + r * home.length, r))
		}
		return home
	}
}

// ---- Requests ----

const replaced = () => fail('replaced', 'another file took its place')

// request ends within LATE, whatever fetch does. It sends no If-Range, which would take another
// request across origins.
async function request(file, from, to, halt) {
	const stop = new AbortController(), { signal } = stop, late = setTimeout(() => stop.abort(new FilterError('timeout', 'no answer')), LATE)
	const stopped = new Promise((_, reject) => { signal.onabort = () => reject(signal.reason) })
	stopped.catch(() => 0)
	halt.addEventListener('abort', () => stop.abort(halt.reason), { signal })
	try {
		const { status, headers, body } = await Promise.race([stopped, file.fetch(file.url, { headers: { Range: `bytes=${from}-${to - 1}` }, cache: 'no-store', signal })])
		const header = name => headers.get(name) ?? '', range = header('Content-Range'), size = +range.split('/')[1], n = Math.min(to, size) - from
		if (status !== 206 || range !== `bytes ${from}-${from + n - 1}/${size}`) fail('http', `status ${status}, not the range`, { status })
		const etag = header('ETag'), strong = etag[0] === '"', time = header('Last-Modified'), mark = size + etag + (strong ? '' : time)
		if ((file.mark ??= mark) !== mark) replaced()
		file.size = size
		file.weak = !strong
		const bytes = new Uint8Array(n), reader = body.getReader()
		let at = 0
		for (let part; !(part = await Promise.race([stopped, reader.read()])).done; at += part.value.length) bytes.set(part.value, at)
		if (at < n) fail('http', 'a short answer')
		return bytes
	} catch (cause) {
		throw halt.aborted || cause instanceof FilterError ? cause : new FilterError('network', `${cause}`, { cause })
	} finally {
		clearTimeout(late)
		stop.abort()
	}
}

// ---- Lookups ----

const NEAR = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597]
const hi = (a, b) => Number(a * BigInt(b) >> 64n), low = (a, b) => a * BigInt(b) & MASK
const bytesOf = b => b?.byteLength >= 0 && new Uint8Array(b.buffer ?? b, b.byteOffset, b.byteLength)

export async function open(from, { fetch = globalThis.fetch, signal } = {}) {
	const stop = new AbortController(), halt = stop.signal, whole = bytesOf(from), file = { url: from, fetch, size: whole.length ?? from.size }
	const read = async (a, b) => {
		halt.throwIfAborted()
		return whole ? whole.subarray(a, b) : from instanceof Blob ? new Uint8Array(await from.slice(a, b).arrayBuffer()) : request(file, a, b, halt)
	}
	signal?.throwIfAborted()
	signal?.addEventListener('abort', () => stop.abort(signal.reason), { signal: halt })
	const head = new Uint8Array(REGION), view = viewOf(head), stash = new Set()
	head.set(await read(0, REGION))
	const g = superblock(head, file.size), { n, values, size } = g, compact = g.layout === 'compact'
	for (let at = STASH; at < REGION; at += 16) if (u32(view, at + 8)) stash.add(`${u64(view, at) & MASK >> 1n} ${u32(view, at + 12)}`)

	async function contains(key) {
		const bytes = typeof key !== 'string' ? bytesOf(key) : !/\p{Cs}/u.test(key) && new TextEncoder().encode(key)
		if (!bytes) throw new TypeError('a key is text or bytes')
		if (u64(view, HEADS) === MASK) return true // superseded
		const whole = xxh3(bytes, g.seed), hash = low(whole, g.shards)
		if (hi(whole, g.shards) !== g.shard) return false
		const line = hi(hash, n), skip = +!compact, fp = skip + hi(low(hash, n), values - skip), m = low(0x9E3779B97F4A7C15n, fp)
		const other = (compact ? line + 1 + (NEAR[fp % 16] - 1) % (n - 1) : hi(low(m ^ m >> 32n, 0xBB67AE8584CAA73Bn), n) + n - line) % n
		let found
		const has = async (line, guests) => {
			const at = size * line % 8, first = REGION + (size * line - at) / 8
			found = await read(first, first + Math.ceil((at + size) / 8))
			return decode[g.layout](g, found, at, guests)?.includes(fp) ?? true
		}
		if (await has(line)) return true
		if (!compact || bits(found, 496 + fp % 16, 1)) {
			if (n > 1 && await has(other, true) || stash.has(`${compact ? line : Math.min(line, other)} ${fp}`)) return true
		}
		// Without a strong ETag, only the superblocks tell files apart.
		if (file.weak && (await read(0, HEADS)).some((b, i) => b !== head[i])) replaced()
		return false
	}

	return {
		...g, contains, close: () => stop.abort(new FilterError('closed', 'it is closed')),
		async containsAll(keys) {
			const list = [...keys], answers = []
			for (let i = 0; i < list.length; i += 6) answers.push(...await Promise.all(list.slice(i, i + 6).map(contains)))
			return answers
		}
	}
}
