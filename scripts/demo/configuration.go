package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Columns of collect_log's report that the demo checks and shows; see
// configs/jobs/collect_log.yaml.
const (
	columnLines    = "lines"
	columnErrors   = "errors"
	columnConfigs  = "config_files"
	columnTopError = "top_error"
)

// writeConfiguration writes the files with which the programs start.
func (s *stage) writeConfiguration() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	stores := "store_id,name,time_zone,labels\n"
	for _, one := range s.shops {
		stores += fmt.Sprintf("%s,%s,%s,region=%s\n", one.id, one.name, one.zone, one.region)
	}
	files := map[string]string{
		"stores.csv": stores,
		"dispatcher.yaml": fmt.Sprintf(`time_zone: Asia/Shanghai
data_folder: %q
reports_folder: %q
stores_file: stores.csv
broker:
  listeners:
    tcp:
      address: %s
  anonymous: true
`, s.path("headquarters"), s.path("reports"), s.address),
	}
	for _, one := range s.shops {
		files[one.id+".yaml"] = s.agentConfiguration(one, self)
	}
	for name, text := range files {
		if err := os.WriteFile(s.path("config", name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("cannot write a configuration: %w", err)
		}
	}
	return nil
}

func (s *stage) agentConfiguration(one shop, self string) string {
	pos := s.path("stores", one.id, "pos")
	text := fmt.Sprintf(`store: %q
terminal: pos-1
time_zone: %s
broker:
  url: mqtt://%s
work_folder: %q
labels:
  region: %q
collect:
  logs: [%q]
  config_files: [%q]
`, one.id, one.zone, s.address, s.path("stores", one.id, "agent"), one.region,
		filepath.Join(pos, "logs", "*.log"), filepath.Join(pos, "conf", "*"))
	if one.part == outdated || one.part == crashing {
		text += fmt.Sprintf(`executors:
  - type: collect_log
    version: 1
    command: [%q, executor, %s, %q, %s]
`, self, one.part, pos, one.zone)
	}
	return text
}

func (s *stage) startAgent(ctx context.Context, one shop) error {
	agent, err := program("edge-agent")
	if err != nil {
		return err
	}
	_, err = s.family.start(ctx, one.id, agent, "--config", s.path("config", one.id+".yaml"))
	return err
}

// commandLine is the order for those who have no mosquitto_pub.
func (s *stage) commandLine() []string {
	return strings.Fields(fmt.Sprintf("run collect_log --broker mqtt://%s --user %s --stores all --input date=yesterday --barrier %s",
		s.address, technician, barrier))
}
