package clients

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// A client has a connection of its own.
type client interface {
	// send sends all commands at once and returns the values of their replies.
	send(commands [][]string) []any
	// call runs a command with the client's own function for it.
	call(words []string) any
	close()
}

type goRedis struct{ c *redis.Client }

func newGoRedis(t testing.TB, s *server, version int) client {
	return goRedis{redis.NewClient(&redis.Options{
		Addr:       fmt.Sprintf("127.0.0.1:%d", s.port),
		Protocol:   version,
		Password:   s.password,
		MaxRetries: -1, // a CF.DEL that is sent twice may remove the item of another key
	})}
}

func (g goRedis) close() { g.c.Close() }

func (g goRedis) send(commands [][]string) []any {
	p := g.c.Pipeline()
	var all []*redis.Cmd
	for _, words := range commands {
		all = append(all, p.Do(context.Background(), anys(words)...))
	}
	p.Exec(context.Background()) // each command has its own error
	var values []any
	for _, cmd := range all {
		values = append(values, plain(cmd.Result()))
	}
	return values
}

// call reads the reply with the type that go-redis has for this command. The function that go-redis has
// for the command does no more.
func (g goRedis) call(words []string) any {
	var cmd redis.Cmder
	ctx, args := context.Background(), anys(words)
	switch words[0] {
	case "CF.RESERVE", "BF.RESERVE":
		cmd = redis.NewStatusCmd(ctx, args...)
	case "CF.INSERT", "CF.MEXISTS", "BF.MADD", "BF.INSERT", "BF.MEXISTS":
		cmd = redis.NewBoolSliceCmd(ctx, args...)
	case "CF.INSERTNX":
		cmd = redis.NewIntSliceCmd(ctx, args...)
	case "CF.COUNT", "BF.CARD":
		cmd = redis.NewIntCmd(ctx, args...)
	case "CF.INFO":
		cmd = redis.NewCFInfoCmd(ctx, args...)
	case "BF.INFO":
		cmd = redis.NewBFInfoCmd(ctx, args...)
	case "CF.SCANDUMP":
		cmd = g.c.CFScanDump(ctx, words[1], position(words[2]))
	case "BF.SCANDUMP":
		cmd = g.c.BFScanDump(ctx, words[1], position(words[2]))
	case "CF.LOADCHUNK", "BF.LOADCHUNK":
		cmd = redis.NewStatusCmd(ctx, args...)
	default:
		cmd = redis.NewBoolCmd(ctx, args...)
	}
	if dump, sent := cmd.(*redis.ScanDumpCmd); sent {
		if err := dump.Err(); err != nil && err != redis.Nil { // the end of CF.SCANDUMP is redis.Nil
			return err
		}
		return []any{dump.Val().Iter, dump.Val().Data}
	}
	if err := g.c.Process(ctx, cmd); err != nil {
		return err
	}
	switch cmd := cmd.(type) {
	case *redis.StatusCmd:
		return cmd.Val()
	case *redis.BoolSliceCmd:
		return plain(cmd.Val(), nil)
	case *redis.IntSliceCmd:
		return plain(cmd.Val(), nil)
	case *redis.IntCmd:
		return cmd.Val()
	case *redis.CFInfoCmd:
		i := cmd.Val()
		return map[string]any{"Size": i.Size, "Number of buckets": i.NumBuckets, "Number of filters": i.NumFilters,
			"Number of items inserted": i.NumItemsInserted, "Number of items deleted": i.NumItemsDeleted,
			"Bucket size": i.BucketSize, "Expansion rate": i.ExpansionRate, "Max iterations": i.MaxIteration}
	case *redis.BFInfoCmd:
		i := cmd.Val()
		return map[string]any{"Capacity": i.Capacity, "Size": i.Size, "Number of filters": i.Filters,
			"Number of items inserted": i.ItemsInserted, "Expansion rate": i.ExpansionRate}
	}
	return cmd.(*redis.BoolCmd).Val()
}

func position(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

type rueidisClient struct{ c rueidis.Client }

func newRueidis(t testing.TB, s *server, version int) client {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{fmt.Sprintf("127.0.0.1:%d", s.port)},
		AlwaysRESP2:  version == 2,
		Password:     s.password,
		DisableCache: true, // the server does not report changes to clients (CLIENT TRACKING)
	})
	must(t, err)
	return rueidisClient{c}
}

func (r rueidisClient) close() { r.c.Close() }

func (r rueidisClient) send(commands [][]string) []any {
	var all []rueidis.Completed
	for _, words := range commands {
		all = append(all, r.c.B().Arbitrary(words...).Build())
	}
	var values []any
	for _, result := range r.c.DoMulti(context.Background(), all...) {
		values = append(values, plain(result.ToAny()))
	}
	return values
}

// call reads the reply with the method that suits the command. The builders of rueidis for commands only
// assemble words.
func (r rueidisClient) call(words []string) any {
	result := r.c.Do(context.Background(), r.c.B().Arbitrary(words...).Build())
	switch words[0] {
	case "CF.RESERVE", "BF.RESERVE", "CF.LOADCHUNK", "BF.LOADCHUNK":
		return plain(result.ToString())
	case "CF.SCANDUMP", "BF.SCANDUMP":
		return plain(result.ToAny())
	case "CF.INSERT", "CF.MEXISTS", "BF.MADD", "BF.INSERT", "BF.MEXISTS":
		return plain(result.AsBoolSlice())
	case "CF.INSERTNX":
		return plain(result.AsIntSlice())
	case "CF.COUNT", "BF.CARD":
		return plain(result.AsInt64())
	case "CF.INFO", "BF.INFO":
		return plain(result.AsIntMap())
	}
	return plain(result.AsBool())
}

func anys(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return all
}

// plain converts a result to a value of few types: see value_test.go.
func plain[T any](value T, err error) any {
	if errors.Is(err, redis.Nil) || rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return err
	}
	switch v := any(value).(type) {
	case []any:
		return each(v)
	case []bool:
		return each(v)
	case []int64:
		return each(v)
	case map[string]any:
		all := map[string]any{}
		for name, e := range v {
			all[name] = plain(e, nil)
		}
		return all
	case map[string]int64:
		all := map[string]any{}
		for name, e := range v {
			all[name] = e
		}
		return all
	case map[any]any:
		all := map[string]any{}
		for name, e := range v {
			all[fmt.Sprint(name)] = plain(e, nil)
		}
		return all
	}
	return value
}

func each[T any](values []T) any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = plain(v, nil)
	}
	return all
}
