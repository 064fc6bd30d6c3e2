package house

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRecipes checks mmapfilter/RECIPES.md as TestReadme checks README.md, in a folder with small
// versions of the files that the recipes use. They are always the same, so numbers are compared, too.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile("../../mmapfilter/RECIPES.md")
	must(t, err)
	r := readme{name: "RECIPES.md", exact: true, dir: t.TempDir(), run: *doReadme, log: t.Log}
	if *doReadme {
		for _, tool := range []string{"sqlite3", "redis-cli"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip("NOT TESTED: there is no " + tool)
			}
		}
		bin := t.TempDir()
		t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		must(t, exec.Command("go", "build", "-o", bin, "../mmapfilter").Run())
		write(t, r.dir, passwords())
		write(t, r.dir, knownFiles())
		write(t, r.dir, map[string]string{
			"monday.txt":  "https://example.org/a\nhttps://example.org/b\nhttps://example.org/a\n",
			"tuesday.txt": "https://example.org/b\nhttps://example.org/c\n",
		})
		r.do(0, "sqlite3 RDS.db <RDS.sql")
	}
	r.check(string(text))
	for _, link := range regexp.MustCompile(`\[([^]]*)\]\(([\w./]+)[#)]`).FindAllStringSubmatch(string(text), -1) {
		code, err := os.ReadFile(filepath.Join("../../mmapfilter", link[2]))
		if err != nil || strings.HasPrefix(link[1], "Example") && !strings.Contains(string(code), "func "+link[1]+"(") {
			t.Errorf("RECIPES.md: there is no %s in %s", link[1], link[2])
		}
	}
	for _, b := range r.broken {
		t.Error(b)
	}
}

// sum returns the SHA-1 of a text in the form that the lists have.
func sum(text string) string { return fmt.Sprintf("%X", sha1.Sum([]byte(text))) }

// passwords returns a list as the downloader of Have I Been Pwned writes it, a newer one, a list of NTLM
// hashes, and a dump of the accounts of a domain.
func passwords() map[string]string {
	r := rand.New(rand.NewPCG(1, 1))
	list := func(n int, hash func(i int) string) string {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("%s:%d\r\n", hash(i), 1+r.IntN(1000)))
		}
		slices.Sort(lines)
		return strings.Join(lines, "")
	}
	password := func(i int) string { return sum(fmt.Sprint("password", i)) }
	ntlm := func(i int) string { return sum(fmt.Sprint("NTLM ", i))[:32] }
	var dump strings.Builder
	for i, hash := range []string{ntlm(7), sum("a long sentence")[:32], ntlm(8)} {
		fmt.Fprintf(&dump, "EXAMPLE\\user%d:%d:aad3b435b51404eeaad3b435b51404ee:%s:::\n", i, 1100+i, strings.ToLower(hash))
	}
	return map[string]string{
		"pwnedpasswords.txt":      list(100_000, password),
		"pwnedpasswords-new.txt":  list(101_000, password),
		"pwnedpasswords_ntlm.txt": list(100_000, ntlm),
		"dump.txt":                dump.String(),
	}
}

// knownFiles returns a list of the NSRL in both of its forms, the changes of a quarter, some files, of
// which two are in the list, and a report of hashlookup.
func knownFiles() map[string]string {
	known := []string{"a compiler", "a shell"}
	for i := range 20_000 {
		known = append(known, fmt.Sprint("file ", i))
	}
	list := bytes.NewBufferString("\"SHA-1\",\"MD5\",\"CRC32\",\"FileName\",\"FileSize\",\"ProductCode\",\"OpSystemCode\",\"SpecialCode\"\r\n")
	db := bytes.NewBufferString("CREATE TABLE FILE (sha256 VARCHAR, sha1 VARCHAR, md5 VARCHAR, file_name VARCHAR, file_size INTEGER, package_id INTEGER);\nBEGIN;\n")
	row := func(i int) string {
		return fmt.Sprintf("INSERT INTO FILE VALUES ('%064X', '%s', '%032X', 'name, %d.dll', %d, %d);\n", i, sum(known[i]), i, i, len(known[i]), i%9)
	}
	for i, text := range known {
		for range 1 + i%2 { // a file may be in several products
			fmt.Fprintf(list, "%q,\"%032X\",\"%08X\",\"name, %d.dll\",%d,%d,\"362\",\"\"\r\n", sum(text), i, i, i, len(text), i%9)
			if i >= 1000 {
				db.WriteString(row(i))
			}
		}
	}
	delta := "BEGIN;\n"
	for i := range 1000 {
		delta += row(i)
	}
	for i := range 100 {
		delta += fmt.Sprintf("DELETE FROM FILE WHERE sha1 = '%s';\n", sum(known[5000+i]))
	}
	return map[string]string{
		"NSRLFile.txt":             list.String(),
		"RDS.sql":                  db.String() + "COMMIT;\n",
		"RDS_delta.sql":            delta + "COMMIT;\n",
		"evidence/bin/cc":          known[0],
		"evidence/bin/sh":          known[1],
		"evidence/my diary, 1.txt": "the diary",
		"unknown.csv":              "hashlookup_result,filename,sha-1,size\nunknown,evidence/bin/cc," + sum(known[0]) + ",10\nunknown,\"evidence/my diary, 1.txt\"," + sum("the diary") + ",9\n",
	}
}
