package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/config"
)

func TestTheShippedConfigurationIsTheEmbeddedOne(t *testing.T) {
	t.Parallel()
	embedded, err := config.Load("")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := config.Load("../../configs/dispatcher.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if embedded.Admission != shipped.Admission || embedded.Collection != shipped.Collection || embedded.Reports != shipped.Reports || embedded.TopicRoot != shipped.TopicRoot {
		t.Errorf("embedded %+v, shipped %+v", embedded, shipped)
	}
	jobs, stores, err := embedded.CheckLists()
	if err != nil || jobs < 1 || stores < 12 {
		t.Errorf("found %d jobs, %d stores, %v", jobs, stores, err)
	}
	if err := embedded.CheckFiles(); err != nil {
		t.Error(err)
	}
}

// TestTheReportsMayLieInTheDataFolder: nobody is shown more by it than the reports.
func TestTheReportsMayLieInTheDataFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dispatcher.yaml")
	if err := os.WriteFile(path, []byte("data_folder: a\nreports_folder: a/reports\nidentity: {folder: \"\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.DataFolder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := path + ":1: data_folder: " + cfg.DataFolder + " is a file, not a folder"
	if err := cfg.CheckFolders(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadRefusesWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, want string }{
		"unknown key":     {"data_folder: d\nreport_folder: r\n", `2: unknown field "report_folder"`},
		"root":            {"topic_root: muster/#\n", `1: topic_root: "muster/#" is not a topic root`},
		"zone":            {"time_zone: Shanghai\n", `1: time_zone: "Shanghai" is no IANA time zone`},
		"transport":       {"transport: kafka\n", `1: transport: "kafka" is not known`},
		"broker address":  {"broker:\n  listeners: {tcp: {address: 1883}}\n", "2: broker.listeners.tcp.address: must be a text"},
		"open to all":     {"broker:\n  listeners:\n    tcp:\n      address: 0.0.0.0:1883\n", `4: broker.listeners.tcp.address: "0.0.0.0:1883" is not a loopback address`},
		"url":             {"transport: mqtt\nmqtt:\n  url: localhost\n", `3: mqtt.url: must be a URL such as mqtts://hq.example`},
		"user":            {"transport: mqtt\nmqtt: {user: a b}\n", `2: mqtt.user: "a b" is no user name`},
		"password file":   {"transport: mqtt\nmqtt:\n  password_file: gone\n", "3: mqtt.password_file: cannot read the broker password"},
		"ca file":         {"transport: mqtt\nmqtt:\n  ca_file: gone\n", "3: mqtt.ca_file: cannot read the broker's certificates"},
		"certificate":     {"transport: mqtt\nmqtt:\n  url: mqtts://hq\n  cert_file: a\n", "4: mqtt.cert_file: needs its private key beside it"},
		"key":             {"transport: mqtt\nmqtt:\n  url: mqtts://hq\n  key_file: a\n", "4: mqtt.key_file: needs its certificate beside it"},
		"plain":           {"transport: mqtt\nmqtt:\n  url: mqtt://localhost\n  cert_file: a\n  key_file: b\n", `4: mqtt.cert_file: needs TLS: mqtt.url must begin with mqtts:// or wss://, not "mqtt://localhost"`},
		"in clear":        {"transport: mqtt\nmqtt:\n  url: mqtt://hq\n", "3: mqtt.url: mqtt://hq carries password and payloads in clear"},
		"admin":           {"admin: {address: \"0.0.0.0:9000\"}\n", `1: admin.address: "0.0.0.0:9000" is not a loopback host:port`},
		"enrolment":       {"enrolment: {address: \"0.0.0.0:8443\"}\n", "1: enrolment.address: needs identity.folder"},
		"over stores":     {"approval: {over_stores: -1}\n", "1: approval.over_stores: -1 is out of range"},
		"anonymous":       {"identity: {folder: id}\n", "broker.anonymous: true contradicts identity.folder"},
		"no key":          {"transport: mqtt\nmqtt:\n  url: mqtts://hq\n  cert_file: a\n  key_file: b\n", "4: mqtt.cert_file: cannot look at "},
		"nothing to copy": {"identity:\n  broker_folder: b\n", "2: identity.broker_folder: needs identity.folder"},
		"same folder":     {"identity:\n  folder: a\n  broker_folder: ./a\n", "3: identity.broker_folder: must not be, or be around, identity.folder"},
		"cap":             {"admission: {max_running: 0}\n", "1: admission.max_running: 0 is out of range"},
		"fraction":        {"admission: {max_running: 1.5}\n", "1: admission.max_running: must be a whole number"},
		"rate":            {"admission: {grants_per_second: -1}\n", "1: admission.grants_per_second: -1 is out of range"},
		"rate not number": {"admission: {grants_per_second: .nan}\n", "1: admission.grants_per_second: NaN is out of range"},
		"burst":           {"collection:\n  burst_bytes: 1000\n", "2: collection.burst_bytes: 1000 is out of range"},
		"log level":       {"log: {level: loud}\n", `1: log.level: "loud" is not known`},
		"keep":            {"reports: {keep_days: -1}\n", "1: reports.keep_days: -1 is out of range"},
		"no folder":       {"data_folder: \"\"\n", "1: data_folder: is required"},
		"no disk":         {"data_folder: /proc/x\n", "1: data_folder: \"/proc/x\" is in /proc, which is the system's own and keeps no files"},
		"same folders":    {"data_folder: a\nreports_folder: ./a\n", "2: reports_folder: must not be, or be around, data_folder"},
		"database open":   {"data_folder: a/b\nreports_folder: a\n", "2: reports_folder: must not be, or be around, data_folder"},
		"keys open":       {"reports_folder: a\nidentity: {folder: a/id}\n", "1: reports_folder: must not be, or be around, identity.folder"},
		"keys copied":     {"identity:\n  folder: a/id\n  broker_folder: a\n", "3: identity.broker_folder: must not be, or be around, identity.folder"},
		"data copied":     {"data_folder: a/d\nidentity:\n  folder: id\n  broker_folder: a\n", "4: identity.broker_folder: must not be, or be around, data_folder"},
		"broker port":     {"broker:\n  listeners:\n    tcp:\n      address: 127.0.0.1:99999\n", "4: broker.listeners.tcp.address: \"127.0.0.1:99999\" has no port from 0 (any) to 65535"},
		"admin port":      {"admin: {address: \"127.0.0.1:70000\"}\n", "1: admin.address: \"127.0.0.1:70000\" is not a loopback host:port"},
		"enrolment port":  {"enrolment: {address: \"0.0.0.0:70000\"}\n", "1: enrolment.address: \"0.0.0.0:70000\" has no port"},
		"enrolment url":   {"enrolment:\n  url: https://hq:0\n", "2: enrolment.url: \"https://hq:0\" has no port from 1 to 65535"},
		"admin on broker": {"admin: {address: \"127.0.0.1:1883\"}\n", "1: admin.address: \"127.0.0.1:1883\" is where broker.listeners.tcp.address listens"},
		"enrolment there": {"identity: {folder: id}\nenrolment: {address: \"0.0.0.0:1883\"}\nbroker: {anonymous: false, users_file: u}\n", "2: enrolment.address: \"0.0.0.0:1883\" is where broker.listeners.tcp.address listens"},
		"no deadline":     {"broker:\n  limits:\n    connect_deadline: 0s\n", "3: broker.limits.connect_deadline: 0s is not between 100ms and 1m0s"},
		"no connections":  {"broker:\n  limits:\n    max_connections: 0\n", "3: broker.limits.max_connections: 0 is not between 1 and 1000000"},
		"machine's zone":  {"time_zone: Local\n", "1: time_zone: \"Local\" is no IANA time zone"},
		"slow":            {"admission: {grants_per_second: 0.0001}\n", "1: admission.grants_per_second: 0.0001 is out of range"},
		"large burst":     {"admission: {grant_burst: 2000000}\n", "1: admission.grant_burst: 2000000 is out of range"},
		"fast bytes":      {"collection: {bytes_per_second: 3000000000}\n", "1: collection.bytes_per_second: 3000000000 is out of range"},
		"many bytes":      {"collection: {burst_bytes: 3000000000}\n", "1: collection.burst_bytes: 3000000000 is out of range"},
		"too many":        {"approval: {over_stores: 2000000}\n", "1: approval.over_stores: 2000000 is out of range"},
		"password in url": {"transport: mqtt\nmqtt:\n  url: mqtts://u:hunter2pass@hq\n", "3: mqtt.url: must hold no password and no user"},
		"url port":        {"transport: mqtt\nmqtt:\n  url: mqtts://hq:70000\n", "3: mqtt.url: \"mqtts://hq:70000\" has no port from 1 to 65535"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "dispatcher.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(path)
			if err == nil || !strings.HasPrefix(err.Error(), path+":") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s:%s", err, path, tc.want)
			}
		})
	}
}
