// Package alarm knows the kinds of alarms: how each is told in Chinese, what to do about
// it, and which are told to be over; and it keeps those that are not over across a
// restart, so that an alarm of one life of headquarters is ended in the next. It raises
// none by itself.
package alarm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// kind is what is known of a kind of alarm.
type kind struct {
	saysZh       string // in Chinese, what is wrong with the subject
	hint, hintZh string // what to do
	ends         bool   // another word follows when it is over
}

// kinds holds every kind that headquarters raises.
func kinds() map[string]kind {
	return map[string]kind{
		"message_panicked": {"总部处理它时出错，没有接收", "read headquarters' log for the stack, and report it; the same request may be sent again",
			"请查看总部日志中的堆栈并上报；同一请求可以重发", false},
		"step_panicked": {"自身的一项工作出错，其余照常进行，具体见 message", "read headquarters' log for the stack, and report it; it is tried again by itself",
			"请查看总部日志中的堆栈并上报；该项工作会自动重试", false},
		"message_quarantined": {"总部多次因这条消息退出，不再接收", "read the file that the message names and the log, mend the fault; sent again, the message is tried anew",
			"请查看 message 所指的文件和日志，修复缺陷；重发后会重新处理", false},
		"result_quarantined": {"总部多次无法处理它的同一份结果，已放弃", "read the answer in the file that the message names, mend the fault, repeat the run for the store",
			"请查看 message 所指文件中的结果，修复缺陷，再对该门店重试", false},
		"wrong_offer": {"终端所持的任务内容与总部下发的不同", "see at the broker who may publish below stores/; only headquarters may",
			"请在代理上核对谁可以发布到 stores/ 之下：只有总部可以", false},
		"client_banned": {"反复连接，被代理暂时拒绝", "look for two machines with one identity, or a program that starts over and over, and stop it",
			"请查找共用一个身份的两台机器，或反复启动的程序，并停止多余的一个", true},
		"barrier_stuck": {"无法得出结论", "read the reason; nothing is lost, and it is tried again every minute: when it stays, report it with headquarters' log",
			"请查看 message 中的原因；没有丢失任何内容，每分钟自动重试；一直不恢复时，请连同总部日志上报", true},
		"report_not_published": {"报告无法写出", "see that the reports folder is there, may be written, has room, and that no file stands where a folder belongs; it is tried again every minute",
			"请确认报告文件夹存在、可写、有空间，且应为文件夹之处没有文件；每分钟自动重试", true},
		"summary_not_published": {"摘要无法发布", "see that the broker runs and lets headquarters publish; the report's files are there, and it is tried again every minute",
			"请确认代理正在运行并允许总部发布；报告文件已写好，每分钟自动重试", true},
		"database_gone": {"数据库文件被移走、删除或替换，总部即将退出", "stop whatever moves or removes files of the data folder, put them back or restore what was saved: the message names the file " +
			"and the command", "请停止移动或删除数据文件夹内文件的程序，把文件放回原处，或恢复已保存的内容：文件和命令见 message", false},
		"database_damaged": {"数据库无法读写", "look at the disk, then stop headquarters and restore the last backup when it stays",
			"请检查磁盘；一直不恢复时，请停止总部并恢复最近的备份", true},
		"disk_full": {"磁盘无法写入", "make room on the disk of the data folder; nothing is taken in until then, and nothing that was receipted is lost",
			"请在数据文件夹所在的磁盘上腾出空间；在此之前不接收任何内容，已发回执的都不会丢失", true},
		"clock_stepped": {"本机时钟被调整，期限仍按总部时间计算", "keep the machine's clock by NTP; do not restart headquarters on a wrong clock while a run is before its barrier",
			"请用 NTP 保持本机时钟准确；有批次尚未截止时，不要在时钟有误的情况下重启总部", true},
		"signing_key_early": {"时钟早于签名密钥的生效时间，终端不相信总部所签的内容", "set the machine's clock right, or put ca.key back into the identity folder",
			"请校准本机时钟，或把 ca.key 放回身份文件夹", false},
		"reload_refused": {"有误，原配置继续有效", "mend what the message names, look with dispatcher check-config, then reload once more",
			"请改正 message 所指之处，用 dispatcher check-config 检查后再次重新读取", true},
		"secret_in_result": {"以明文发来了秘密，总部已涂黑", "change the secret, because it has crossed the wire, and add its form to the redaction of the terminal",
			"请更换该秘密，因为它已经过网络；并把它的格式加入终端的涂黑规则", false},
		"forged_message": {"有人冒充该终端", "find out who speaks for the terminal; if it is its own machine, enrol it again with --force",
			"请查明是谁；若是该终端自己的机器，请用 --force 重新注册", false},
		"duplicate_terminal": {"有两台机器使用该终端的身份", "find the two machines, and enrol one of them as another terminal; a restored copy of a disk counts as one",
			"请找出这两台机器，把其中一台注册为另一终端；磁盘备份恢复出的副本也算一台", true},
	}
}

// Kinds lists every kind, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }

// Hint says what to do about a kind, in English and Chinese; "" for one that is not known.
func Hint(of string) (en, zh string) { return kinds()[of].hint, kinds()[of].hintZh }

// Says is the sentence of an alarm about a subject: what is wrong, and with nil that it is
// over. A trouble that is worded in English alone has its particulars there.
func Says(of, subject string, trouble error) (en, zh string) {
	whoZh := subjectZh(of, subject)
	if trouble == nil {
		return subject + ": it is over", whoZh + "：已恢复正常"
	}
	en, zh = fmt.Sprintf("%s: %v", subject, trouble), whoZh+"："+kinds()[of].saysZh
	if worded, ok := errors.AsType[*Trouble](trouble); ok {
		return en, zh + "：" + worded.Zh
	}
	return en, zh
}

// Trouble is what is wrong, in both languages.
type Trouble struct{ En, Zh string }

func (t *Trouble) Error() string { return t.En }

// subjectZh is a subject in Chinese. Ids, folders and topics are alike in both languages;
// which piece of work headquarters was at is told in English alone.
func subjectZh(of, subject string) string {
	const ownTime, taken, ofRun, ofCommand = "headquarters' time", "configuration", "run ", "the command "
	switch {
	case of == "step_panicked":
		return "总部"
	case subject == ownTime:
		return "总部时间"
	case subject == taken:
		return "新配置"
	case strings.HasPrefix(subject, ofRun):
		return "批次 " + strings.TrimPrefix(subject, ofRun)
	case strings.HasPrefix(subject, ofCommand):
		return "命令 " + strings.TrimPrefix(subject, ofCommand)
	}
	if who, client, has := strings.Cut(subject, " as client "); has && of == "client_banned" {
		return who + "（客户端 " + client + "）"
	}
	if path, from, has := strings.Cut(subject, " of "); has && of == "message_panicked" {
		return path + "（来自 " + from + "）"
	}
	return subject
}

// ends says whether an alarm of the kind is told to be over.
func ends(of string) bool { return kinds()[of].ends }
