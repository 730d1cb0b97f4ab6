// Telegraf with the plugins of docs/examples/consumers/telegraf.conf alone: the whole of it takes a
// quarter of an hour and gigabytes to build, this a minute.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	_ "github.com/influxdata/telegraf/plugins/inputs/mqtt_consumer"
	_ "github.com/influxdata/telegraf/plugins/outputs/file"
	_ "github.com/influxdata/telegraf/plugins/parsers/xpath"
	_ "github.com/influxdata/telegraf/plugins/processors/starlark"
	_ "github.com/influxdata/telegraf/plugins/serializers/influx"
)

func main() {
	settings := config.NewConfig()
	if err := settings.LoadConfig(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	until, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := agent.NewAgent(settings).Run(until); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
