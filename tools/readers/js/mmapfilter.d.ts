/**
 * Reads filter files of mmapfilter where they lie: behind a URL, in a Blob, in bytes. "Is this key in the set?" is
 * answered with false, certainly not, or true, maybe.
 *
 *	import { open } from './mmapfilter.mjs'
 *	const filter = await open('https://example.org/seen.mmf')
 *	if (!(await filter.contains('apple'))) console.log('certainly not')
 *
 * It reads sealed files and clean ones, of every layout, in browsers, Node 18 and later, and Deno. A file that a writer
 * has open is refused; so is one whose writer died. Nobody may write to the file while it is open here, and no log may
 * lie beside it: publish what Build or Seal made, and replace it by renaming.
 */

/**
 * Opens a filter. It reads 32 KiB: the superblocks and the stash.
 *
 * A URL is read by requests for ranges; a lookup of an absent key makes one, of a line: 64 bytes in compact; in the
 * other layouts two, of less. Each answer must have the ETag of the first one. Where there is only a weak one, or none,
 * Last-Modified must agree, and each "certainly not" takes another request, of 16 KiB: the superblocks, which must not
 * have changed.
 * A server of another origin must expose the headers Content-Range and ETag.
 *
 * Rejects with a FilterError; with the reason of signal; or with the error of a Blob that cannot be read.
 */
export function open(from: string | URL | Blob | ArrayBufferLike | ArrayBufferView, options?: Options): Promise<Filter>

export interface Options {
	/** Takes the place of the global fetch, for headers, retries or a cache. */
	fetch?: (url: any, init: { headers: { Range: string }; cache: 'no-store'; signal: AbortSignal }) => Promise<Response>
	/** Ends open, and all lookups of the filter. */
	signal?: AbortSignal
}

/** Text stands for its UTF-8. Text with half a surrogate pair is refused with a TypeError. */
export type Key = string | ArrayBufferLike | ArrayBufferView

export interface Filter {
	/** Whether a key may be in the filter: false is certain. Rejects as open does; an error is no answer. */
	contains(key: Key): Promise<boolean>
	/** Answers in the order of the keys; some lookups run at the same time. The first error ends it. */
	containsAll(keys: Iterable<Key>): Promise<boolean[]>
	/** Ends lookups that are under way, and refuses later ones. */
	close(): void
	/** The number of items. */
	readonly length: number
	/** The false-positive rate that the file was sized for. */
	readonly rate: number
	/** The note on how the keys were made; "" if nobody left one. Show it, or know what it means. */
	readonly normalisation: string
	/** Of a shard of a set: its number. It answers false for the keys of other shards. */
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
	/** Of compact: quotients, and bits of a remainder. Of the others they mean nothing. */
	readonly q: number
	readonly r: number
	/** Of compact, how many fingerprints there are; of the others, one more. */
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
