package collect

import "time"

// result is the job's output, version 1. Its names are those of schemas/collect_log_output.v1.schema.json.
type result struct {
	SchemaVersion int           `json:"schemaVersion"`
	Date          string        `json:"date"`
	TimeZone      string        `json:"timeZone"`
	RangeStart    string        `json:"rangeStart"`
	RangeStartMs  int64         `json:"rangeStartMs"`
	RangeEnd      string        `json:"rangeEnd"`
	RangeEndMs    int64         `json:"rangeEndMs"`
	AsOf          string        `json:"asOf"`
	AsOfMs        int64         `json:"asOfMs"`
	Totals        totals        `json:"totals"`
	Logs          []logEntry    `json:"logs"`
	TopErrors     []errorEntry  `json:"topErrors"`
	Excerpt       []excerptLine `json:"excerpt"`
	Config        []configEntry `json:"config"`
	Problems      []problem     `json:"problems"`
	Truncated     truncation    `json:"truncated"`
}

// totals sum up all log files, those that the result leaves out included.
type totals struct {
	Files            int   `json:"files"`
	Bytes            int64 `json:"bytes"`
	Lines            int64 `json:"lines"`
	LinesInRange     int64 `json:"linesInRange"`
	Errors           int64 `json:"errors"`
	Warnings         int64 `json:"warnings"`
	UndecodableBytes int64 `json:"undecodableBytes"`
	ErrorGroups      int   `json:"errorGroups"`
	ConfigFiles      int   `json:"configFiles"`
	Problems         int   `json:"problems"`
}

// logEntry is one log file. firstAt and lastAt are the first and last time within the day, fileFirstAt and fileLastAt
// those of the whole file. The levels count the day's lines that carry a time of their own; with continuationLines
// they make linesInRange.
type logEntry struct {
	Path              string           `json:"path"`
	SizeBytes         int64            `json:"sizeBytes"`
	ModifiedAt        string           `json:"modifiedAt"`
	ModifiedAtMs      int64            `json:"modifiedAtMs"`
	Compression       string           `json:"compression"`
	Encoding          string           `json:"encoding"`
	EncodingBasis     string           `json:"encodingBasis"`
	UndecodableBytes  int64            `json:"undecodableBytes"`
	Lines             int64            `json:"lines"`
	LinesInRange      int64            `json:"linesInRange"`
	ContinuationLines int64            `json:"continuationLines"`
	LinesWithoutTime  int64            `json:"linesWithoutTime"`
	Levels            map[string]int64 `json:"levels"`
	FirstAt           string           `json:"firstAt,omitempty"`
	FirstAtMs         int64            `json:"firstAtMs,omitempty"`
	LastAt            string           `json:"lastAt,omitempty"`
	LastAtMs          int64            `json:"lastAtMs,omitempty"`
	FileFirstAt       string           `json:"fileFirstAt,omitempty"`
	FileFirstAtMs     int64            `json:"fileFirstAtMs,omitempty"`
	FileLastAt        string           `json:"fileLastAt,omitempty"`
	FileLastAtMs      int64            `json:"fileLastAtMs,omitempty"`
	Truncated         logTruncation    `json:"truncated"`
}

// logTruncation says what of a log file was not read to its end: how many lines were longer than is kept of one, and
// whether the content itself was left off before its end.
type logTruncation struct {
	LongLines int64 `json:"longLines"`
	Content   bool  `json:"content"`
}

type errorEntry struct {
	Message   string `json:"message"`
	Example   string `json:"example"`
	Level     string `json:"level"`
	Count     int64  `json:"count"`
	Cut       bool   `json:"cut"`
	FirstAt   string `json:"firstAt"`
	FirstAtMs int64  `json:"firstAtMs"`
	LastAt    string `json:"lastAt"`
	LastAtMs  int64  `json:"lastAtMs"`
}

type excerptLine struct {
	Path  string `json:"path"`
	Line  int64  `json:"line"`
	At    string `json:"at"`
	AtMs  int64  `json:"atMs"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Cut   bool   `json:"cut"`
}

type configEntry struct {
	Path             string `json:"path"`
	SizeBytes        int64  `json:"sizeBytes"`
	ModifiedAt       string `json:"modifiedAt"`
	ModifiedAtMs     int64  `json:"modifiedAtMs"`
	SHA256           string `json:"sha256,omitempty"` // of the bytes as they lie; "" unless all of them are told
	Encoding         string `json:"encoding"`
	EncodingBasis    string `json:"encodingBasis"`
	UndecodableBytes int64  `json:"undecodableBytes"`
	Redactions       int    `json:"redactions"`
	Binary           bool   `json:"binary"`
	Content          string `json:"content"`
	ContentTruncated bool   `json:"contentTruncated"`
}

// problem is something to know about a glob or a file. Codes are those of package sources and the two below.
type problem struct {
	Code   string `json:"code"`
	Path   string `json:"path"`
	Detail string `json:"detail"`
}

const (
	// noTimestamps marks a log none of whose lines carries a time that is understood.
	noTimestamps = "no_timestamps"
	// notConfigured marks a run that had nothing to read.
	notConfigured = "not_configured"
)

// truncation counts what the result leaves out although the order asked for it.
type truncation struct {
	Any            bool  `json:"any"`
	ExcerptLines   int64 `json:"excerptLines"`
	ConfigContents int   `json:"configContents"`
	Messages       int   `json:"messages"`
	ErrorGroups    int   `json:"errorGroups"`
	UngroupedLines int64 `json:"ungroupedLines"`
	Problems       int   `json:"problems"`
	Logs           int   `json:"logs"`
	Config         int   `json:"config"`
	UnreadFiles    int   `json:"unreadFiles"`
}

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// at returns an instant as it is written in the result.
func (c *Collector) at(ms int64) string { return time.UnixMilli(ms).In(c.location).Format(timeLayout) }
