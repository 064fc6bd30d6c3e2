package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
)

var (
	planFlag   = flag.String("plan", "", "plan of the set, a file that \"mmapfilter set plan\" wrote (required)")
	outFlag    = flag.String("o", "", "manifest to write, DIR/NAME.set or gs://BUCKET/DIR/NAME.set; the shards go to the same place (required)")
	memoryFlag = flag.Int64("memory", 0, "MiB of hashes to hold in memory for each shard under construction; 0 means 256")
)

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `usage: beam -plan PLAN -o NAME.set [FLAG...] GLOB...

Makes a set from the lines of the files that match, on Apache Beam. The runner is Prism, in this
process, unless -runner names another. Most flags are Beam's.

`)
	flag.PrintDefaults()
}

func main() {
	flag.Usage = usage
	flag.Parse()
	beam.Init() // a worker does not return from here
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "beam:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, out io.Writer) error {
	if *planFlag == "" || *outFlag == "" || flag.NArg() == 0 {
		return errors.New("-plan, -o and at least one GLOB are needed; -h shows the usage")
	}
	plan, err := os.ReadFile(*planFlag)
	if err != nil {
		return err
	}
	j, err := newJob(*planFlag, plan, flag.Args(), *outFlag)
	if err != nil {
		return err
	}
	j.memory = *memoryFlag << 20
	p, s := beam.NewPipelineWithRoot()
	j.add(s)
	result, err := beamx.RunWithMetrics(ctx, p)
	if err != nil {
		return err
	}
	if result == nil || *jobopts.Async {
		fmt.Fprintln(out, "the job may still be running; the set is complete once its manifest exists:", j.manifest)
		return nil
	}
	n := counts(result)
	fmt.Fprintf(out, "%s: %d shards, %d keys read, %d items, %d duplicates, %d bytes\n", j.manifest, n["shards"], n["read"], n["items"], n["read"]-n["items"], n["bytes"])
	return nil
}
