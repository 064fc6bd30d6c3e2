package server

import (
	"slices"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// A command is what a client can ask for. Arity, flags and keys are as in the reply to COMMAND.
type command struct {
	name  string
	arity int    // how many words it has; if negative, it has -arity words or more
	most  int    // the most words it may have, if not 0
	flags string // of Redis: write, readonly, fast, admin
	keys  [3]int // the first and the last word that are keys, and the step
	run   func(c *client, args [][]byte) error
	usage string // the words after the name
	open  bool   // to clients that have not given the password
	now   bool   // is not queued after MULTI
	long  bool   // waits for the disk, or takes long with many keys: see client.run
}

// writes reports whether a reply may mean that something has changed.
func (cmd *command) writes() bool { return strings.HasPrefix(cmd.flags, "write") }

func (cmd *command) takes(words int) bool {
	return (cmd.arity < 0 && words >= -cmd.arity || words == cmd.arity) && (cmd.most == 0 || words <= cmd.most)
}

// commands is the table of all commands. Go cannot initialize it where it is declared, since COMMAND
// reads it.
var commands []command

var (
	oneKey     = [3]int{1, 1, 1}
	twoKeys    = [3]int{1, 2, 1}
	allKeys    = [3]int{1, -1, 1}
	secondWord = [3]int{2, 2, 1}
)

var byName = map[string]*command{}

func init() {
	commands = []command{
		{name: "CF.RESERVE", arity: -3, flags: "write", keys: oneKey, run: reserve, usage: "key capacity [BUCKETSIZE n] [MAXITERATIONS n] [EXPANSION n] [RATE p]", long: true},
		{name: "CF.ADD", arity: 3, flags: "write", keys: oneKey, run: add, usage: "key item"},
		{name: "CF.ADDNX", arity: 3, flags: "write", keys: oneKey, run: add, usage: "key item"},
		{name: "CF.INSERT", arity: -4, flags: "write", keys: oneKey, run: insert, usage: "key [CAPACITY n] [NOCREATE] ITEMS item..."},
		{name: "CF.INSERTNX", arity: -4, flags: "write", keys: oneKey, run: insert, usage: "key [CAPACITY n] [NOCREATE] ITEMS item..."},
		{name: "CF.EXISTS", arity: 3, flags: "readonly fast", keys: oneKey, run: isIn, usage: "key item"},
		{name: "CF.MEXISTS", arity: -3, flags: "readonly fast", keys: oneKey, run: areIn, usage: "key item..."},
		{name: "CF.COUNT", arity: 3, flags: "readonly fast", keys: oneKey, run: count, usage: "key item"},
		{name: "CF.DEL", arity: 3, flags: "write fast", keys: oneKey, run: cfDel, usage: "key item"},
		{name: "CF.COMPACT", arity: 2, flags: "write", keys: oneKey, run: cfCompact, usage: "key", long: true},
		{name: "CF.INFO", arity: 2, flags: "readonly fast", keys: oneKey, run: filterInfo, usage: "key"},
		{name: "CF.SCANDUMP", arity: 3, flags: "readonly", keys: oneKey, run: scanDump, usage: "key position", long: true},
		{name: "CF.LOADCHUNK", arity: 4, flags: "write", keys: oneKey, run: loadChunk, usage: "key position data", long: true},
		{name: "BF.RESERVE", arity: -4, most: 7, flags: "write", keys: oneKey, run: reserve, usage: "key rate capacity [EXPANSION n] [NONSCALING]", long: true},
		{name: "BF.ADD", arity: 3, flags: "write", keys: oneKey, run: add, usage: "key item"},
		{name: "BF.MADD", arity: -3, flags: "write", keys: oneKey, run: insert, usage: "key item..."},
		{name: "BF.INSERT", arity: -4, flags: "write", keys: oneKey, run: insert, usage: "key [CAPACITY n] [ERROR p] [EXPANSION n] [NOCREATE] [NONSCALING] ITEMS item..."},
		{name: "BF.EXISTS", arity: 3, flags: "readonly fast", keys: oneKey, run: isIn, usage: "key item"},
		{name: "BF.MEXISTS", arity: -3, flags: "readonly fast", keys: oneKey, run: areIn, usage: "key item..."},
		{name: "BF.CARD", arity: 2, flags: "readonly fast", keys: oneKey, run: count, usage: "key"},
		{name: "BF.INFO", arity: -2, most: 3, flags: "readonly fast", keys: oneKey, run: filterInfo, usage: "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]"},
		{name: "BF.SCANDUMP", arity: 3, flags: "readonly", keys: oneKey, run: scanDump, usage: "key position", long: true},
		{name: "BF.LOADCHUNK", arity: 4, flags: "write", keys: oneKey, run: loadChunk, usage: "key position data", long: true},

		{name: "DEL", arity: -2, flags: "write", keys: allKeys, run: del, usage: "key...", long: true},
		{name: "UNLINK", arity: -2, flags: "write", keys: allKeys, run: del, usage: "key...", long: true},
		{name: "EXISTS", arity: -2, flags: "readonly fast", keys: allKeys, run: exists, usage: "key..."},
		{name: "TYPE", arity: 2, flags: "readonly fast", keys: oneKey, run: typeOf, usage: "key"},
		{name: "RENAME", arity: 3, flags: "write", keys: twoKeys, run: rename, usage: "key newkey", long: true},
		{name: "EXPIRE", arity: -3, flags: "write fast", keys: oneKey, run: expire, usage: "key seconds [NX | XX | GT | LT]", long: true},
		{name: "TTL", arity: 2, flags: "readonly fast", keys: oneKey, run: ttl, usage: "key"},
		{name: "PERSIST", arity: 2, flags: "write fast", keys: oneKey, run: expire, usage: "key", long: true},
		{name: "KEYS", arity: 2, flags: "readonly", run: keys, usage: "pattern", long: true},
		{name: "SCAN", arity: -2, flags: "readonly", run: scan, usage: "cursor [MATCH pattern] [COUNT n] [TYPE type]", long: true},
		{name: "DBSIZE", arity: 1, flags: "readonly fast", run: dbSize, long: true},
		{name: "FLUSHALL", arity: -1, most: 2, flags: "write", run: flushAll, usage: "[ASYNC | SYNC]", long: true},
		{name: "MEMORY", arity: -2, flags: "readonly", keys: secondWord, run: memory, usage: "USAGE key [SAMPLES n]", long: true},

		{name: "PING", arity: -1, most: 2, flags: "fast", run: ping, usage: "[message]"},
		{name: "ECHO", arity: 2, flags: "fast", run: echo, usage: "message"},
		{name: "HELLO", arity: -1, flags: "fast", run: hello, usage: "[2 | 3 [AUTH user password] [SETNAME name]]", open: true},
		{name: "AUTH", arity: -2, most: 3, flags: "fast", run: auth, usage: "[user] password", open: true},
		{name: "CLIENT", arity: -2, flags: "fast", run: clientCommand, usage: "ID | GETNAME | SETNAME name | SETINFO word value | NO-EVICT on | NO-TOUCH on"},
		{name: "SELECT", arity: 2, flags: "fast", run: selectDB, usage: "0"},
		{name: "QUIT", arity: -1, flags: "fast", run: quit, open: true, now: true},
		{name: "MULTI", arity: 1, flags: "fast", run: multi, now: true},
		{name: "EXEC", arity: 1, flags: "", run: exec, now: true, long: true},
		{name: "DISCARD", arity: 1, flags: "fast", run: discard, now: true},
		{name: "COMMAND", arity: -1, flags: "readonly", run: commandCommand, usage: "[COUNT | LIST | INFO name... | DOCS name...]"},
		{name: "INFO", arity: -1, flags: "readonly", run: info, usage: "[section...]", long: true},
		{name: "CONFIG", arity: -2, flags: "admin", run: config, usage: "GET pattern..."},
		{name: "WAIT", arity: 3, flags: "readonly", run: wait, usage: "replicas milliseconds"},
		{name: "WAITAOF", arity: 4, flags: "readonly", run: waitAOF, usage: "local replicas milliseconds", long: true},
		{name: "SHUTDOWN", arity: -1, flags: "admin", run: shutdown, usage: "[NOSAVE | SAVE]"},
	}
	for i := range commands {
		byName[commands[i].name] = &commands[i]
	}
}

// lookUp returns a command by its name, or nil.
func lookUp(name []byte) *command {
	var upper [16]byte
	if len(name) > len(upper) {
		return nil
	}
	for i, b := range name {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	return byName[string(upper[:len(name)])]
}

// commandCommand answers COMMAND.
func commandCommand(c *client, args [][]byte) error {
	asked := make([]*command, 0, len(commands)) // nil for a name that no command has
	if len(args) > 2 {
		for _, name := range args[2:] {
			asked = append(asked, lookUp(name))
		}
	} else {
		for i := range commands {
			asked = append(asked, &commands[i])
		}
	}
	switch {
	case len(args) == 1 || same(args[1], "INFO"):
		c.out.Array(len(asked))
		for _, cmd := range asked {
			cmd.describe(c.out)
		}
	case same(args[1], "COUNT"):
		c.out.Int(int64(len(commands)))
	case same(args[1], "LIST"):
		c.out.Array(len(commands))
		for _, cmd := range commands {
			c.out.Bulk(lower(cmd.name))
		}
	case same(args[1], "DOCS"):
		asked = slices.DeleteFunc(asked, func(cmd *command) bool { return cmd == nil })
		c.out.Map(len(asked))
		for _, cmd := range asked {
			c.out.Bulk(lower(cmd.name))
			c.pairs("summary", strings.TrimSpace(cmd.name+" "+cmd.usage))
		}
	default:
		return errPart
	}
	return nil
}

// describe writes what COMMAND says of a command. cmd is nil for a name that no command has.
func (cmd *command) describe(out *resp.Writer) {
	if cmd == nil {
		out.Null()
		return
	}
	out.Array(6)
	out.Bulk(lower(cmd.name))
	out.Int(int64(cmd.arity))
	flags := strings.Fields(cmd.flags)
	out.Array(len(flags))
	for _, f := range flags {
		out.Simple(f)
	}
	for _, n := range cmd.keys {
		out.Int(int64(n))
	}
}
