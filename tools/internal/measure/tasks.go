package measure

import (
	"encoding/json"
	"io"
	"maps"
	"os"
)

// tasks are the tasks of children on every system; systemTasks adds to them.
var tasks = map[string]task{
	"nothing": func(*worker, json.RawMessage) (any, error) { return nil, nil },
	"open":    taskOf((*worker).open),
	"rate":    taskOf((*worker).rate),
	"latency": taskOf((*worker).latency),
	"count":   taskOf((*worker).count),
}

// runChild is the main loop of a child. It returns the exit status.
func runChild(in io.Reader, out io.Writer) int {
	all := maps.Clone(tasks)
	maps.Copy(all, systemTasks)
	w := new(worker)
	requests := make(chan request)
	go func() {
		for lines := json.NewDecoder(in); ; {
			var r request
			if err := lines.Decode(&r); err != nil {
				os.Exit(0) // exit at once, whatever is being measured
			}
			requests <- r
		}
	}()
	encoder := json.NewEncoder(out)
	for r := range requests {
		var a answer
		result, err := all[r.Do](w, r.Args)
		if err == nil {
			a.Result, err = json.Marshal(result)
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if encoder.Encode(a) != nil {
			return exitError
		}
	}
	return 0
}
