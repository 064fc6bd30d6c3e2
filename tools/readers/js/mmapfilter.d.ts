/**
 * Reads filter files of mmapfilter where they are: behind a URL, in a Blob, in bytes. To "is this key in the set?" it
 * answers false, certainly not, or true, maybe.
 *
 *	import { open } from './mmapfilter.mjs'
 *	const filter = await open('https://example.org/seen.mmf')
 *	if (!(await filter.contains('apple'))) console.log('certainly not')
 *
 * It reads sealed and clean files, of every layout, in browsers, Node 18 and later, and Deno. It refuses a file that a
 * writer has open, or whose writer died. Nobody may write to the file while it is open here, and no log may lie beside
 * it: publish a file from Build or Seal, and replace it by renaming.
 */

/**
 * Opens a filter. It reads 32 KiB: the superblocks and the stash.
 *
 * A URL is read by requests for ranges. In compact, most lookups of an absent key make one request, for a line of 64
 * bytes; in the other layouts they make two, for shorter lines. Each response must have the ETag of the first one. If
 * that is weak or missing, Last-Modified must agree, and each "certainly not" takes another request, for the
 * superblocks (16 KiB), which must not have changed.
 * A server of another origin must expose the headers Content-Range and ETag.
 *
 * Rejects with a FilterError, with the reason of signal, or with the error of a Blob that cannot be read.
 */
export function open(from: string | URL | Blob | ArrayBufferLike | ArrayBufferView, options?: Options): Promise<Filter>

export interface Options {
	/** Is called instead of the global fetch, for headers, retries or a cache. */
	fetch?: (url: any, init: { headers: { Range: string }; cache: 'no-store'; signal: AbortSignal }) => Promise<Response>
	/** Ends open, and all lookups of the filter. */
	signal?: AbortSignal
}

/** Text stands for its UTF-8. Text with half a surrogate pair is a TypeError. */
export type Key = string | ArrayBufferLike | ArrayBufferView

export interface Filter {
	/** Whether a key may be in the filter: false is certain. Rejects as open does. */
	contains(key: Key): Promise<boolean>
	/** Answers in the order of the keys. Some lookups run at the same time. Rejects with the first error. */
	containsAll(keys: Iterable<Key>): Promise<boolean[]>
	/** Ends lookups that are under way, and refuses later ones. */
	close(): void
	/** The number of items. */
	readonly length: number
	/** The false-positive rate that the file was sized for. */
	readonly rate: number
	/** The note on how the keys were made, or "". A program that does not know what it means must show it. */
	readonly normalisation: string
	/** If the file is a shard of a set, its number. It answers false for the keys of other shards. */
	readonly shard: number
	/** How many shards the set has; 1 if the file is no shard. */
	readonly shards: number
	readonly layout: 'compact' | 'packed' | 'semisorted'
	readonly seed: bigint
	/** Lines, bits of a line, slots of a bucket, and bits of a fingerprint. */
	readonly n: number
	readonly size: number
	readonly b: number
	readonly f: number
	/** In compact: quotients, and bits of a remainder. In the other layouts they mean nothing. */
	readonly q: number
	readonly r: number
	/** In compact, the number of fingerprints; in the other layouts, one more than that. */
	readonly values: number
}

export class FilterError extends Error {
	/**
	 * not-a-filter, corrupt (see rule), version (the file needs a newer reader), live (a writer has the file open, or died);
	 * http (the server does not send the range; see status), network (see cause), timeout (no answer in ten seconds),
	 * replaced (another file has taken its place: open it again), closed.
	 */
	code: 'not-a-filter' | 'corrupt' | 'version' | 'live' | 'http' | 'network' | 'timeout' | 'replaced' | 'closed'
	/** The rule of "go doc ./layout" that the file breaks. */
	rule?: string
	status?: number
	cause?: unknown
}

/** XXH3, 64 bits, with a seed from 0 to 2^64 - 1: the hash of a key. */
export function xxh3(key: Uint8Array, seed: bigint): bigint
