/* probe is the program through which the tests of package readers ask mmapfilter.h. What it reads
 * and writes is for them: see each function. A record is 4 bytes of length, and a key. */
#define MMF_IMPLEMENTATION
#define MMF_STATIC
#include "mmapfilter.h"

#include <stdio.h>

static int die(const char *what) {
	fprintf(stderr, "probe: %s\n", what);
	return 3;
}

/* records reads up to n records, into one buffer. It returns how many. */
static size_t records(const void **keys, size_t *lens, size_t n, uint8_t **buf, size_t *room) {
	size_t i, used = 0, at = 0;
	uint32_t len;
	for (i = 0; i < n && fread(&len, 4, 1, stdin) == 1; i++) {
		if (used + len > *room && !(*buf = (uint8_t *)realloc(*buf, *room = 2 * (used + len))))
			abort();
		if (len && fread(*buf + used, 1, len, stdin) != len)
			abort();
		lens[i] = len;
		used += len;
	}
	for (n = i, i = 0; i < n; at += lens[i++])
		keys[i] = *buf ? *buf + at : (const uint8_t *)"";
	return n;
}

/* answers FILTER HOW: a byte, 0 or 1, for each record. HOW is single, hash, hashes, batch or fixed. */
static int answers(const char *path, const char *how) {
	enum { N = 1000 };
	static const void *keys[N];
	static size_t lens[N];
	static uint64_t hashes[N];
	static uint8_t found[N];
	uint8_t *buf = NULL;
	size_t room = 0, n, i;
	mmf_filter *f;
	int err = mmf_open(path, &f);
	if (err < 0)
		return die(mmf_strerror(err));
	while ((n = records(keys, lens, N, &buf, &room)) > 0) {
		memset(found, 9, sizeof found);
		for (i = 0; i < n; i++)
			hashes[i] = mmf_hash(f, keys[i], lens[i]);
		if (!strcmp(how, "batch"))
			mmf_contains_batch(f, keys, lens, n, found);
		else if (!strcmp(how, "hashes"))
			mmf_contains_hashes(f, hashes, n, found);
		else if (!strcmp(how, "fixed")) /* the keys of a size that follow one another */
			for (i = 0; i < n;) {
				size_t m = 1;
				while (i + m < n && lens[i + m] == lens[i])
					m++;
				mmf_contains_fixed(f, keys[i], lens[i], m, found + i);
				i += m;
			}
		else
			for (i = 0; i < n; i++)
				found[i] = (uint8_t)(!strcmp(how, "hash") ? mmf_contains_hash(f, hashes[i]) : mmf_contains(f, keys[i], lens[i]));
		if (fwrite(found, 1, n, stdout) != n)
			return die("stdout");
	}
	free(buf);
	mmf_close(f);
	return 0;
}

/* hash: reads a seed of 8 bytes and a record, again and again; writes 8 bytes of hash for each. */
static int hash(void) {
	uint64_t seed, h;
	const void *key;
	size_t len, room = 0;
	uint8_t *buf = NULL;
	while (fread(&seed, 8, 1, stdin) == 1 && records(&key, &len, 1, &buf, &room) == 1) {
		/* in memory of its exact size, which a sanitizer guards */
		uint8_t *own = (uint8_t *)malloc(len ? len : 1);
		if (!own)
			abort();
		memcpy(own, key, len);
		h = mmf_xxh3(own, len, seed);
		free(own);
		if (fwrite(&h, 8, 1, stdout) != 1)
			return die("stdout");
	}
	free(buf);
	return 0;
}

/* opens: a path a line; for each a line with the code of mmf_open, the status and the length. */
static int opens(void) {
	char line[4096];
	while (fgets(line, sizeof line, stdin)) {
		mmf_filter *f;
		int err;
		line[strcspn(line, "\n")] = 0;
		if ((err = mmf_open(line, &f)) < 0)
			printf("%d\n", err);
		else
			printf("%d %d %llu\n", err, mmf_status(f), (unsigned long long)mmf_len(f));
		mmf_close(f);
		fflush(stdout);
	}
	return 0;
}

/* session FILTER: a command a line, and an answer for each: s, the status; l, the length; d and a directory, 0
 * once it is the working directory; k and a key, whether the filter may have it, asked alone and in a batch. */
static int session(const char *path) {
	char line[4096];
	mmf_filter *f;
	int err = mmf_open(path, &f);
	if (err < 0)
		return die(mmf_strerror(err));
	while (fgets(line, sizeof line, stdin)) {
		const void *key = line + 1;
		size_t len = strcspn(line, "\n") - 1;
		uint8_t found = 9;
		if (*line == 's')
			printf("%d\n", mmf_status(f));
		else if (*line == 'd') {
			line[1 + len] = 0;
			printf("%d\n", chdir(line + 1));
		} else if (*line == 'l')
			printf("%llu\n", (unsigned long long)mmf_len(f));
		else if (mmf_contains_batch(f, &key, &len, 1, &found) == 0 && found == mmf_contains(f, key, len))
			printf("%d\n", found);
		else
			return die("the batch has another answer");
		fflush(stdout);
	}
	mmf_close(f);
	return 0;
}

/* An image is a file in memory, and a copy of it on the disk that can be damaged. */
typedef struct {
	uint8_t *data;
	size_t size;
	const char *copy;
	int fd;
} image;

static int load(image *im, const char *path, const char *copy) {
	FILE *in = fopen(path, "rb");
	if (!in)
		return 0;
	fseek(in, 0, SEEK_END);
	im->size = (size_t)ftell(in);
	rewind(in);
	im->data = (uint8_t *)malloc(im->size);
	im->copy = copy;
	im->fd = open(copy, O_RDWR | O_CREAT | O_TRUNC, 0600);
	return im->data && fread(im->data, 1, im->size, in) == im->size && fclose(in) == 0 && im->fd >= 0 &&
		pwrite(im->fd, im->data, im->size, 0) == (ssize_t)im->size;
}

/* in_heap puts the parts that lookups read into memory of their exact size, which a sanitizer guards. */
static uint64_t *in_heap(const uint64_t **words, size_t bytes) {
	uint64_t *own = (uint64_t *)malloc(bytes);
	if (!own)
		abort();
	memcpy(own, *words, bytes);
	*words = own;
	return own;
}

static uint64_t random_word(uint64_t *state) {
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* try opens the copy and, if that works, looks keys up. It returns the code of mmf_open. */
static int try(const image *im, int heap) {
	enum { N = 300 };
	uint64_t h[N], *own[3] = {NULL, NULL, NULL};
	uint8_t found[N];
	mmf_filter *f;
	int i, err = mmf_open(im->copy, &f);
	if (err < 0) {
		if (!strcmp(mmf_strerror(err), mmf_strerror(-1000)))
			abort(); /* an error without a text */
		return err;
	}
	if (heap) {
		own[0] = in_heap(&f->runtime, 4096);
		own[1] = in_heap(&f->stash, 12288);
		own[2] = in_heap(&f->region, f->head.region);
	}
	for (i = 0; i < N; i++)
		h[i] = random_word(&(uint64_t){(uint64_t)i});
	h[0] = 0;
	h[1] = ~(uint64_t)0;
	mmf_contains_hashes(f, h, N, found);
	for (i = 0; i < N; i++)
		if (found[i] != mmf_contains_hash(f, h[i]))
			abort(); /* nothing moves, so both must say the same */
	mmf_len(f);
	mmf_status(f);
	mmf_close(f);
	for (i = 0; i < 3; i++)
		free(own[i]);
	return err;
}

/* fields FILE COPY FROM TO: for every bit of those bytes of the superblock, with a right checksum and
 * no other copy, a byte: minus the code of mmf_open. */
static int fields(const char *path, const char *copy, int from, int to) {
	image im;
	uint8_t raw[MMF_RUNTIME];
	int bit;
	if (!load(&im, path, copy))
		return die("load");
	for (bit = 8 * from; bit < 8 * to; bit++) {
		uint32_t crc;
		memset(raw, 0, sizeof raw);
		memcpy(raw, im.data, MMF_SUPERBLOCK);
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
		crc = mmf_crc32c(raw, MMF_SUPERBLOCK - 4);
		memcpy(raw + MMF_SUPERBLOCK - 4, &crc, 4);
		if (pwrite(im.fd, raw, sizeof raw, 0) != (ssize_t)sizeof raw)
			return die("pwrite");
		putchar(-try(&im, 0));
	}
	free(im.data);
	return 0;
}

/* damage FILE COPY N SEED: bits of the first superblock, all of them if n is large, cuts at every 512 bytes, and n files
 * with 1 to 256 random bytes anywhere. It prints how many of each were opened. */
static int damage(const char *path, const char *copy, unsigned long n, uint64_t seed) {
	image im;
	unsigned long bits = 0, cuts = 0, opened = 0, i, j, step = n >= 10000 ? 1 : 31; /* 31: some bits of all bytes */
	size_t size;
	if (!load(&im, path, copy))
		return die("load");
	for (i = 0; i < 8 * MMF_SUPERBLOCK; i += step) {
		uint8_t b = im.data[i / 8] ^ (uint8_t)(1 << i % 8);
		if (pwrite(im.fd, &b, 1, (off_t)(i / 8)) != 1)
			return die("pwrite");
		bits += try(&im, 0) == 0;
		if (pwrite(im.fd, im.data + i / 8, 1, (off_t)(i / 8)) != 1)
			return die("pwrite");
	}
	for (size = im.size - 512; size < im.size; size -= 512) {
		if (ftruncate(im.fd, (off_t)size) != 0)
			return die("ftruncate");
		cuts += try(&im, 0) == 0;
	}
	for (i = 0; i < n; i++) {
		/* half of it in what lookups read */
		unsigned long k = 1 + random_word(&seed) % 256;
		size_t low = random_word(&seed) % 2 ? MMF_RUNTIME : 0;
		uint8_t *bad = (uint8_t *)malloc(im.size);
		if (!bad)
			abort();
		memcpy(bad, im.data, im.size);
		for (j = 0; j < k; j++)
			bad[low + random_word(&seed) % (im.size - low)] = (uint8_t)random_word(&seed);
		if (pwrite(im.fd, bad, im.size, 0) != (ssize_t)im.size)
			return die("pwrite");
		free(bad);
		opened += try(&im, 1) == 0;
	}
	printf("%lu %lu %lu\n", bits, cuts, opened);
	free(im.data);
	return 0;
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "answers") && argc == 4)
		return answers(argv[2], argv[3]);
	if (!strcmp(what, "hash"))
		return hash();
	if (!strcmp(what, "opens"))
		return opens();
	if (!strcmp(what, "session") && argc == 3)
		return session(argv[2]);
	if (!strcmp(what, "fields") && argc == 6)
		return fields(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
	if (!strcmp(what, "damage") && argc == 6)
		return damage(argv[2], argv[3], strtoul(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
	return die("what?");
}
