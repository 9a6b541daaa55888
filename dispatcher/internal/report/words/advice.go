package words

import "muster/internal/task"

// Advice says what to do about a cause; empty where there is nothing to do.
func Advice(r task.Reason) Pair {
	switch r {
	case task.ReasonNone:
		return Pair{}
	case task.ReasonExecutionError:
		return Pair{"看该店的错误说明；改好后重试失败的门店。", "Read the store's error; mend it there, then retry what failed."}
	case task.ReasonInvalidResult:
		return Pair{"终端程序与作业的格式不一致：核对该店程序版本并升级。", "The store's program and the job's schema differ: check its version and upgrade it."}
	case task.ReasonAttemptsExhausted:
		return Pair{"每次失败的原因不同：先看最后一次的错误，再查看各次记录。", "Each attempt failed in another way: begin with the last error, then look at each attempt."}
	case task.ReasonRefusedByTerminal:
		return Pair{"终端说明了拒绝的原因（电量、负载、时段或版本）：排除后重试。", "The terminal says why it refused (battery, load, hours or version): remove the cause and retry."}
	case task.ReasonLeaseExpired:
		return Pair{"执行到一半失去联系：检查该店网络与电源，然后重试。", "Contact was lost half-way: check the store's network and power, then retry."}
	case task.ReasonOnlineNeverClaimed:
		return Pair{"已连线但没有领取：检查终端程序是否支持此作业，必要时重启它。", "Connected, yet it took nothing: check that its program knows the job, and restart it if need be."}
	case task.ReasonWaitingForSlot:
		return Pair{"总部名额不够：放宽并发或上传限额，或延长截止时间。", "Headquarters was the bottleneck: raise its limits or allow more time."}
	case task.ReasonGrantedNeverStarted:
		return Pair{"放行后没有动静：查看该店终端程序的日志。", "Nothing was heard after the grant: look at the log of the store's program."}
	case task.ReasonStartedThenSilent:
		return Pair{"开始后没有消息：检查该店电脑是否死机或断网；结果可能稍后补传。", "It started and fell silent: check whether the machine hangs or lost its link; the answer may still come late."}
	case task.ReasonStillRunning:
		return Pair{"仍在执行，结果会补传：需要时延长截止时间。", "Still at work, and the answer will come late: allow more time if this is usual."}
	case task.ReasonOfflineWholeWindow:
		return Pair{"全程未连线：联系门店，查看电源与网络；连线后自动补传。", "Never connected: call the store about power and network; its answer comes by itself once it is back."}
	case task.ReasonWentOffline:
		return Pair{"中途断线：检查该店线路；连线后自动补传。", "The link broke: check the store's line; its answer comes by itself once it is back."}
	case task.ReasonByUser:
		return Pair{"由人取消，无需处理；需要时重新下发。", "Withdrawn by a person: nothing to do, or order it anew."}
	case task.ReasonPrerequisiteFailed:
		return Pair{"先处理前置任务，再重新下发。", "Mend the task it depends on, then order it anew."}
	case task.ReasonRunAborted:
		return Pair{"整批已中止：查明原因后重新下发。", "The run was stopped: find out why, then order it anew."}
	case task.ReasonExpired:
		return Pair{"补传期已过：需要时重新下发。", "The time for late answers is over: order it anew if it is still needed."}
	case task.ReasonSuperseded:
		return Pair{"以新批次的报告为准。", "See the report of the newer run."}
	}
	return Pair{}
}
